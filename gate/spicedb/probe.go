package spicedb

import (
	"context"
	"errors"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	authzed "github.com/authzed/authzed-go/v1"
	"google.golang.org/grpc/status"
)

// probed is the answer to a probe.
type probed struct {
	token string
	asked time.Duration
	err   error
}

// probe reads at the newest revision, which costs the server little: it tells
// that revision, and whether the schema has what the phase asks for.
func (p *Phase) probe(ctx context.Context) probed {
	found := probed{asked: p.now()}
	permissions := []string{p.names.Permission}
	if p.names.ViewPermission != "" && p.names.ViewPermission != p.names.Permission {
		permissions = append(permissions, p.names.ViewPermission)
	}
	req := &v1.CheckBulkPermissionsRequest{Consistency: (&generation{}).consistency(true)}
	for _, permission := range permissions {
		req.Items = append(req.Items, &v1.CheckBulkPermissionsRequestItem{
			Resource:   &v1.ObjectReference{ObjectType: p.names.Object, ObjectId: "_"},
			Permission: permission,
			Subject:    ref{p.names.Subject, "_"}.subject(),
		})
	}
	found.err = p.client.direct(ctx, "ask SpiceDB for its newest revision", probeTimeout, func(ctx context.Context, api *authzed.Client) error {
		res, err := api.CheckBulkPermissions(ctx, req)
		found.token = res.GetCheckedAt().GetToken()
		if err == nil {
			p.client.health.probed(p.missing(permissions, res.GetPairs()))
		}
		return err
	})
	if found.err == nil && found.token == "" {
		found.err = errors.New("SpiceDB told no revision")
	}
	return found
}

// missing says what the schema lacks for the probe; empty is nothing.
func (p *Phase) missing(permissions []string, pairs []*v1.CheckBulkPermissionsPair) string {
	for i, pair := range pairs {
		if e := pair.GetError(); e != nil && i < len(permissions) {
			failed := &Error{
				Reason: ReasonMisconfigured, Endpoint: p.client.endpoint, Err: status.ErrorProto(e),
				Doing: "ask SpiceDB for " + permissions[i] + " on a " + p.names.Object,
			}
			return failed.Error()
		}
	}
	return ""
}
