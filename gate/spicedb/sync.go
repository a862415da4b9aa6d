package spicedb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	authzed "github.com/authzed/authzed-go/v1"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// adminTimeout bounds one call of what an operator asks for.
	adminTimeout = 10 * time.Second
	// writeMost is how many relationships are written in one call; SpiceDB's
	// own limit is 1000.
	writeMost = 500
	// readMost is how many relationships are read before it is given up.
	readMost = 1 << 20
)

// Capability is something that a server offers, for [Phase.Sync].
type Capability struct {
	Kind         mcp.Kind
	Server       string // key of the server in the configuration
	Original     string // name or URI at the server
	Exposed      string // name or URI that clients know
	Unsuffixed   string // see [gate.Names]
	CapabilityID string
	// Tenant is needed only where the [Mapping] puts {tenant} into ids.
	Tenant string
}

// SyncReport is what [Phase.Sync] found and did.
type SyncReport struct {
	// Written are relationships that were not there; those that [Phase.Plan]
	// returns still are not.
	Written []string
	Kept    int // relationships that were there already
	// Elsewhere are relationships that put one of the capabilities on another
	// server. They stay, and let the other server's users in: delete them
	// unless that is meant.
	Elsewhere []string
	// Token is the ZedToken of the last write; empty when nothing was written.
	Token string
}

// Sync writes "tool:x#server@server:y" for every capability that has none, so
// that what is granted on a server holds for all that the server offers. It
// writes nothing that is there already, and deletes nothing. After an error
// the report tells what was written before it; Sync may be called again.
func (p *Phase) Sync(ctx context.Context, capabilities []Capability) (SyncReport, error) {
	report, missing, err := p.compareBelongings(ctx, capabilities)
	for err == nil && len(missing) > 0 {
		n := min(len(missing), writeMost)
		err = p.write(ctx, missing[:n], &report)
		missing = missing[n:]
	}
	return report, err
}

// Plan returns what [Phase.Sync] would report, and writes nothing.
func (p *Phase) Plan(ctx context.Context, capabilities []Capability) (SyncReport, error) {
	report, missing, err := p.compareBelongings(ctx, capabilities)
	for _, b := range missing {
		report.Written = append(report.Written, relationship(b.object, p.names.ServerRelation, b.server))
	}
	return report, err
}

// compareBelongings returns which relationships of capabilities are missing, and
// a report of the others.
func (p *Phase) compareBelongings(ctx context.Context, capabilities []Capability) (report SyncReport, missing []belonging, err error) {
	if p.client == nil {
		return report, nil, errZero
	}
	order, err := p.belongings(capabilities)
	if err != nil {
		return report, nil, fmt.Errorf("spicedb sync: %w", err)
	}
	there, err := p.belong(ctx, order)
	if err != nil {
		return report, nil, err
	}
	report.Elsewhere = p.elsewhere(order, there)
	for _, b := range order {
		if there[b] {
			report.Kept++
			continue
		}
		missing = append(missing, b)
	}
	return report, missing, nil
}

// ObjectIDs returns the objects of capabilities, as "tool:gh__search", in their
// order; empty for one that has none. An error is one of the mapping.
func ObjectIDs(m Mapping, capabilities []Capability) ([]string, error) {
	n, err := m.complete()
	if err != nil {
		return nil, err
	}
	out := make([]string, len(capabilities))
	for i := range capabilities {
		if object, err := n.objectOf(capabilities[i].request()); err == nil {
			out[i] = object.String()
		}
	}
	return out, nil
}

// request is a question about the capability, without a caller but for the
// tenant.
func (c *Capability) request() *gate.Request {
	r := &gate.Request{
		Kind: c.Kind, Server: c.Server, Original: c.Original, Exposed: c.Exposed, Unsuffixed: c.Unsuffixed, CapabilityID: c.CapabilityID,
	}
	if c.Tenant != "" {
		r.Identity = &gate.Identity{Principal: gate.Principal{Tenant: c.Tenant}}
	}
	return r
}

// belonging says that an object is on a server.
type belonging struct{ object, server ref }

// belongings says of capabilities where they belong, each once.
func (p *Phase) belongings(capabilities []Capability) (order []belonging, err error) {
	seen := map[belonging]bool{}
	for _, c := range capabilities {
		b, bad := p.belonging(c)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		if !seen[b] {
			seen[b] = true
			order = append(order, b)
		}
	}
	return order, err
}

func (p *Phase) belonging(c Capability) (belonging, error) {
	r := c.request()
	object, err := p.names.objectOf(r)
	if err != nil {
		return belonging{}, err
	}
	id, err := p.names.server.render(func(part part) string { return objectPart(r, part) })
	if err != nil {
		return belonging{}, fmt.Errorf("server %q: %w", c.Server, err)
	}
	return belonging{object, ref{p.names.Server, id}}, nil
}

// belong reads which objects of the types in order are on which servers.
func (p *Phase) belong(ctx context.Context, order []belonging) (map[belonging]bool, error) {
	there, read := map[belonging]bool{}, map[string]bool{}
	for _, b := range order {
		if kind := b.object.kind; !read[kind] {
			read[kind] = true
			if err := p.read(ctx, kind, there); err != nil {
				return nil, err
			}
		}
	}
	return there, nil
}

// read notes which objects of a type are on which servers.
func (p *Phase) read(ctx context.Context, kind string, there map[belonging]bool) error {
	req := &v1.ReadRelationshipsRequest{
		Consistency:        (&generation{}).consistency(true),
		RelationshipFilter: &v1.RelationshipFilter{ResourceType: kind, OptionalRelation: p.names.ServerRelation},
	}
	doing := "read which objects of type " + kind + " are on which server"
	return p.client.direct(ctx, doing, adminTimeout, func(ctx context.Context, api *authzed.Client) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the stream where it is not read to its end
		stream, err := api.ReadRelationships(ctx, req)
		if err != nil {
			return err
		}
		for range readMost {
			found, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			object, server := found.GetRelationship().GetResource(), found.GetRelationship().GetSubject().GetObject()
			there[belonging{
				ref{object.GetObjectType(), object.GetObjectId()},
				ref{server.GetObjectType(), server.GetObjectId()},
			}] = true
		}
		return fmt.Errorf("there are more than %d", readMost)
	})
}

// elsewhere returns what puts an object of order on a server where it does not
// belong.
func (p *Phase) elsewhere(order []belonging, there map[belonging]bool) []string {
	objects, right := map[ref]bool{}, map[belonging]bool{}
	for _, b := range order {
		objects[b.object] = true
		right[b] = true
	}
	var wrong []string
	for b := range there {
		if objects[b.object] && !right[b] {
			wrong = append(wrong, relationship(b.object, p.names.ServerRelation, b.server))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// write writes relationships.
func (p *Phase) write(ctx context.Context, missing []belonging, report *SyncReport) error {
	req := &v1.WriteRelationshipsRequest{}
	for _, b := range missing {
		req.Updates = append(req.Updates, &v1.RelationshipUpdate{
			Operation: v1.RelationshipUpdate_OPERATION_TOUCH,
			Relationship: &v1.Relationship{
				Resource: b.object.object(), Relation: p.names.ServerRelation, Subject: b.server.subject(),
			},
		})
	}
	doing := fmt.Sprintf("write %d relationships", len(missing))
	err := p.client.direct(ctx, doing, adminTimeout, func(ctx context.Context, api *authzed.Client) error {
		res, err := api.WriteRelationships(ctx, req)
		if err == nil {
			report.Token = res.GetWrittenAt().GetToken()
		}
		return err
	})
	if err != nil {
		return err
	}
	p.Wrote(report.Token)
	for _, b := range missing {
		report.Written = append(report.Written, relationship(b.object, p.names.ServerRelation, b.server))
	}
	return nil
}
