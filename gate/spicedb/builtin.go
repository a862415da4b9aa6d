package spicedb

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/toolgate/toolgate/gate"
)

// Builtin answers from a [Config] what a SpiceDB with [Schema] would answer.
// The zero Builtin denies everything. Its methods are safe for concurrent use.
type Builtin struct {
	names names
	graph atomic.Pointer[graph]
}

// NewBuiltin returns the phase. The error joins all that is wrong with the
// mapping and the configuration.
func NewBuiltin(m Mapping, c Config) (*Builtin, error) {
	n, err := m.complete()
	if err != nil {
		return nil, fmt.Errorf("spicedb builtin: %w", err)
	}
	b := &Builtin{names: n}
	if err := b.Replace(c); err != nil {
		return nil, err
	}
	return b, nil
}

// Replace puts another configuration in force, for every decision that begins
// after it returns. After an error the one before stays.
func (b *Builtin) Replace(c Config) error {
	if b.names.object.text == "" {
		return errZero
	}
	all, err := c.relationships(&b.names)
	if err != nil {
		return fmt.Errorf("spicedb builtin: %w", err)
	}
	b.graph.Store(newGraph(all))
	return nil
}

// Part implements [gate.Phase].
func (b *Builtin) Part() gate.Part {
	return gate.Part{
		Name: phaseName, Check: b.Check,
		CheckAll: b.CheckAll, Snapshot: b.Snapshot, Explain: b.Explain, ViewClass: b.ViewClass,
	}
}

// Check is [gate.Part.Check].
func (b *Builtin) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	d, _, _, err := b.decide(r)
	return d, err
}

// CheckAll is [gate.Part.CheckAll].
func (b *Builtin) CheckAll(ctx context.Context, rs []gate.Request) ([]gate.Decision, error) {
	decisions := make([]gate.Decision, len(rs))
	for i := range rs {
		d, err := b.Check(ctx, &rs[i])
		d.Err = err
		decisions[i] = d
	}
	return decisions, nil
}

// ViewClass is [gate.Part.ViewClass]: one subject of one tenant views the
// same, until the relationships change.
func (b *Builtin) ViewClass(id *gate.Identity) (class string, cacheable bool) {
	g := b.graph.Load()
	if g == nil {
		return "", true // nobody views anything
	}
	subject, err := b.names.subjectOf(id)
	if err != nil {
		return g.revision, true
	}
	return g.revision + " " + subject.String() + " " + strconv.Quote(id.Tenant), true
}

// Snapshot is [gate.Part.Snapshot]: the relationships.
func (b *Builtin) Snapshot(*gate.Request) any {
	if g := b.graph.Load(); g != nil {
		return g
	}
	return nil
}

// Explain is [gate.Part.Explain]. The rules are the relationships that
// decided, from the object to the caller.
func (b *Builtin) Explain(_ context.Context, r *gate.Request) (gate.Explanation, error) {
	d, q, path, err := b.decide(r)
	e := gate.Explanation{Decision: d}
	if q.permission == "" {
		return e, err
	}
	e.Question = q.String()
	for _, w := range path.list() {
		e.Rules = append(e.Rules, gate.Rule{File: w.at.File, Line: w.at.Line, Text: w.String()})
	}
	switch {
	case d.Effect == gate.Allow:
	case path.found():
		e.Change = b.names.unban(q)
	default:
		e.Change = b.names.let(q)
	}
	return e, err
}

// decide answers a request and returns the relationships that decided.
func (b *Builtin) decide(r *gate.Request) (d gate.Decision, q question, path trail, err error) {
	g := b.graph.Load()
	if g == nil {
		return gate.Decision{Reason: ReasonMisconfigured}, q, path, errZero
	}
	if d, ok, err := local(r); ok {
		return d, q, path, err
	}
	if q, err = b.names.of(r); err != nil {
		return gate.Decision{Reason: ReasonMisconfigured}, question{}, path, err
	}
	server, err := b.names.server.render(func(p part) string { return objectPart(r, p) })
	if err != nil {
		return gate.Decision{Reason: ReasonMisconfigured}, q, path, fmt.Errorf("server %q: %w", r.Server, err)
	}
	d.Revision = g.revision
	if ban := g.path(g.objects[q.object], b.names.Ban, q.subject); ban.found() {
		d.Reason = q.subject.String() + " is banned from " + q.object.String()
		return d, q, ban, nil
	}
	if path := b.grants(g, q, ref{b.names.Server, server}); path.found() {
		d.Effect = gate.Allow
		return d, q, path, nil
	}
	d.Reason = refused(q)
	return d, q, path, nil
}

// grants returns the relationships that grant what is asked; none when none do.
func (b *Builtin) grants(g *graph, q question, server ref) trail {
	object := g.objects[q.object]
	for _, relation := range [...]string{ownerRelation, b.names.grant(q)} {
		if path := g.path(object, relation, q.subject); path.found() {
			return path
		}
	}
	if path := g.server(server, q.subject); path.found() {
		return path
	}
	// Relationships may put an object on further servers.
	further := object.written(b.names.ServerRelation)
	for i := range further {
		if path := g.server(further[i].subject.ref, q.subject); path.found() {
			return path.behind(&further[i])
		}
	}
	return trail{}
}

var _ gate.Phase = (*Builtin)(nil)
