package spicedb

import (
	"context"
	"fmt"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	authzed "github.com/authzed/authzed-go/v1"

	"github.com/toolgate/toolgate/gate"
)

// What a [gate.Change] of this package changes.
const (
	// ChangeWrite is a relationship to write.
	ChangeWrite = "relation"
	// ChangeDelete is a relationship to delete.
	ChangeDelete = "relation.delete"
	// ChangeServer is the server itself: its endpoint is the value.
	ChangeServer = "spicedb.endpoint"
)

// Explain is [gate.Part.Explain]. The question is what the zed tool would
// be asked. For a deny the change is one relationship, written as SpiceDB
// writes it; whether the schema lets it be written, and whether it should be,
// is the operator's to know.
func (p *Phase) Explain(ctx context.Context, r *gate.Request) (gate.Explanation, error) {
	d, err := p.Check(ctx, r)
	e := gate.Explanation{Decision: d}
	if p.client == nil || r == nil || r.Identity == nil || d.Effect == gate.Abstain {
		return e, err
	}
	q, unnamed := p.names.of(r)
	if unnamed != nil {
		return e, err
	}
	e.Question = q.String()
	switch {
	case d.Effect == gate.Allow:
	case err != nil:
		e.Change = &gate.Change{Text: err.Error(), Where: ChangeServer, Value: p.client.endpoint}
	case d.Reason == noType(q.object.kind):
		e.Change = &gate.Change{
			Text:  fmt.Sprintf("add to the schema a definition %s with a permission %s", q.object.kind, q.permission),
			Where: ChangeServer, Value: p.client.endpoint,
		}
	case p.banned(ctx, q):
		e.Change = p.names.unban(q)
	default:
		e.Change = p.names.let(q)
	}
	return e, err
}

// let is the change that grants a permission.
func (n *names) let(q question) *gate.Change {
	relation := relationship(q.object, n.grant(q), q.subject)
	return &gate.Change{Text: "write the relationship " + relation, Where: ChangeWrite, Value: relation}
}

// unban is the change that gives a permission back.
func (n *names) unban(q question) *gate.Change {
	relation := relationship(q.object, n.Ban, q.subject)
	return &gate.Change{Text: "delete the relationship " + relation, Where: ChangeDelete, Value: relation}
}

// relationship is how SpiceDB and zed write one.
func relationship(object ref, relation string, subject ref) string {
	return object.String() + "#" + relation + "@" + subject.String()
}

// banned tells whether the relation that takes permissions away is there. A
// schema without it bans nobody.
func (p *Phase) banned(ctx context.Context, q question) bool {
	there := false
	_ = p.client.direct(ctx, "look for a ban", p.options.CallTimeout, func(ctx context.Context, api *authzed.Client) error {
		res, err := api.CheckPermission(ctx, &v1.CheckPermissionRequest{
			Consistency: (&generation{}).consistency(true),
			Resource:    q.object.object(), Permission: p.names.Ban, Subject: q.subject.subject(),
		})
		there = res.GetPermissionship() == v1.CheckPermissionResponse_PERMISSIONSHIP_HAS_PERMISSION
		return err
	})
	return there
}
