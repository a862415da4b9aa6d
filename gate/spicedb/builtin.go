package spicedb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// Name implements [gate.Phase].
func (*Builtin) Name() string { return phaseName }

// Check implements [gate.Phase].
func (b *Builtin) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	d, _, _, err := b.decide(r)
	return d, err
}

// CheckAll implements [gate.Batcher].
func (b *Builtin) CheckAll(ctx context.Context, rs []gate.Request) ([]gate.Decision, error) {
	decisions := make([]gate.Decision, len(rs))
	for i := range rs {
		d, err := b.Check(ctx, &rs[i])
		d.Err = err
		decisions[i] = d
	}
	return decisions, nil
}

// ViewClass implements [gate.Classifier]: one subject of one tenant views the
// same, until the relationships change.
func (b *Builtin) ViewClass(id *gate.Identity) string {
	g := b.graph.Load()
	if g == nil {
		return "" // nobody views anything
	}
	subject, err := b.names.subjectOf(id)
	if err != nil {
		return g.revision
	}
	return g.revision + " " + subject.String() + " " + strconv.Quote(id.Tenant)
}

// Explain implements [gate.Explainer]. The rules are the relationships that
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
	if d, ok, err := settled(r); ok {
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
	if ban := g.path(edge{q.object, b.names.Ban}, q.subject); ban.found() {
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
	for _, relation := range [...]string{ownerRelation, b.names.grant(q)} {
		if path := g.path(edge{q.object, relation}, q.subject); path.found() {
			return path
		}
	}
	if path := g.server(server, q.subject); path.found() {
		return path
	}
	// Relationships may put an object on further servers.
	further := g.edges[edge{q.object, b.names.ServerRelation}]
	for i := range further {
		if path := g.server(further[i].subject.ref, q.subject); path.found() {
			return path.behind(&further[i])
		}
	}
	return trail{}
}

// graph is relationships, ready to be walked. It is not changed once made.
type graph struct {
	revision string
	edges    map[edge][]written
	// direct are the relationships whose subject is one object, by both ends.
	direct map[tuple]*written
	// sets are the relationships whose subject is a set, by their object.
	sets map[edge][]written
	// in are the sets that a subject is in, however deep, with the
	// relationships that lead from the set to it.
	in map[ref]map[subjectSet][]written
}

// newGraph returns the graph of relationships.
func newGraph(all []written) *graph {
	g := &graph{edges: map[edge][]written{}, direct: map[tuple]*written{}, sets: map[edge][]written{}, in: map[ref]map[subjectSet][]written{}}
	sum := sha256.New()
	members := map[subjectSet][]written{} // a subject to the sets that it is in itself
	for i := range all {
		w := all[i]
		fmt.Fprintln(sum, w.tuple)
		g.edges[w.edge] = append(g.edges[w.edge], w)
		if w.subject.relation == "" {
			g.direct[w.tuple] = &all[i]
		} else {
			g.sets[w.edge] = append(g.sets[w.edge], w)
		}
		if w.relation == memberRelation {
			members[w.subject] = append(members[w.subject], w)
		}
	}
	for s := range members {
		if s.relation == "" {
			g.in[s.ref] = closure(s, members)
		}
	}
	g.revision = "builtin:" + hex.EncodeToString(sum.Sum(nil)[:8])
	return g
}

// closure returns every set that a subject is in, through whatever sets, with
// the shortest way there. Sets that contain each other end it.
func closure(s subjectSet, members map[subjectSet][]written) map[subjectSet][]written {
	in := map[subjectSet][]written{}
	type step struct {
		at   subjectSet
		path []written
	}
	for queue := []step{{at: s}}; len(queue) > 0; queue = queue[1:] {
		for _, w := range members[queue[0].at] {
			set := subjectSet{w.object, memberRelation}
			if _, ok := in[set]; ok {
				continue
			}
			path := append([]written{w}, queue[0].path...)
			in[set] = path
			queue = append(queue, step{set, path})
		}
	}
	return in
}

// trail is relationships that lead from an object to a subject: some, and what
// follows them. It is made of what the graph holds. The zero trail leads nowhere.
type trail struct {
	first [3]*written // those that are not nil
	rest  []written
}

func (t *trail) found() bool { return t.first[2] != nil }

// behind returns the trail with a relationship in front of it.
func (t trail) behind(w *written) trail {
	if t.first[1] == nil {
		t.first[1] = w
	} else {
		t.first[0] = w
	}
	return t
}

// list returns the relationships from the object to the subject.
func (t *trail) list() []written {
	var all []written
	for _, w := range t.first {
		if w != nil {
			all = append(all, *w)
		}
	}
	return append(all, t.rest...)
}

// path returns the relationships by which a subject has a relation, from the
// object to the subject; none when it has not.
func (g *graph) path(e edge, subject ref) trail {
	if w, ok := g.direct[tuple{e, subjectSet{ref: subject}}]; ok {
		return trail{first: [3]*written{2: w}}
	}
	in := g.in[subject]
	if in == nil {
		return trail{}
	}
	sets := g.sets[e]
	for i := range sets {
		if rest, ok := in[sets[i].subject]; ok {
			return trail{first: [3]*written{2: &sets[i]}, rest: rest}
		}
	}
	return trail{}
}

// server returns the relationships by which a subject may execute everything
// of a server.
func (g *graph) server(server, subject ref) trail {
	if path := g.path(edge{server, executorAccess}, subject); path.found() {
		return path
	}
	tenants := g.edges[edge{server, tenantRelation}]
	for i := range tenants {
		if path := g.path(edge{tenants[i].subject.ref, adminRelation}, subject); path.found() {
			return path.behind(&tenants[i])
		}
	}
	return trail{}
}

var (
	_ gate.Phase      = (*Builtin)(nil)
	_ gate.Batcher    = (*Builtin)(nil)
	_ gate.Classifier = (*Builtin)(nil)
	_ gate.Explainer  = (*Builtin)(nil)
)
