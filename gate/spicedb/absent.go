package spicedb

import (
	"cmp"
	"slices"

	"github.com/toolgate/toolgate/gate"
)

// Absent is an object that a configuration names and that nothing is.
type Absent struct {
	Object string // as in "tool:gh__serch"
	// Exposed is the exposed name that the object stands for, Server the key of
	// a server; both are empty where the mapping makes ids of something else.
	Exposed, Server string
	At              Entry
}

// Absent returns the tools, prompts, resources and servers of the configuration
// in force that are none of those that there are, by their first mention.
// capabilities have everything that ids are made of but the caller; servers are
// keys. Of objects whose ids are made of the caller's tenant nothing can be said.
func (b *Builtin) Absent(capabilities []gate.Request, servers []string) []Absent {
	g := b.graph.Load()
	if g == nil {
		return nil
	}
	n := &b.names
	there := n.objectsOf(capabilities, servers)
	found := map[ref]Absent{}
	for _, w := range g.all {
		t := n.templateOf(w.object.kind)
		if t == nil || t.has(partTenant) || there[w.object] {
			continue
		}
		a := Absent{Object: w.object.String(), At: w.at}
		switch {
		case t.only(partExposed):
			a.Exposed = w.object.id
		case t.only(partServer):
			a.Server = w.object.id
		}
		if before, ok := found[w.object]; !ok || cmp.Or(cmp.Compare(a.At.File, before.At.File), cmp.Compare(a.At.Line, before.At.Line)) < 0 {
			found[w.object] = a
		}
	}
	all := make([]Absent, 0, len(found))
	for _, a := range found {
		all = append(all, a)
	}
	slices.SortFunc(all, func(x, y Absent) int {
		return cmp.Or(cmp.Compare(x.At.File, y.At.File), cmp.Compare(x.At.Line, y.At.Line), cmp.Compare(x.Object, y.Object))
	})
	return all
}

// objectsOf are the objects that capabilities and servers are.
func (n *names) objectsOf(capabilities []gate.Request, servers []string) map[ref]bool {
	there := map[ref]bool{}
	for i := range capabilities {
		r := &capabilities[i]
		if object, err := n.objectOf(r); err == nil {
			there[object] = true
		}
		if id, err := n.server.render(func(p part) string { return objectPart(r, p) }); err == nil {
			there[ref{n.Server, id}] = true
		}
	}
	for _, key := range servers { // also those that list nothing
		r := &gate.Request{Server: key}
		for kind, t := range map[string]*template{n.Server: &n.server, n.Resource: &n.resource} {
			if id, err := t.render(func(p part) string { return objectPart(r, p) }); err == nil {
				there[ref{kind, id}] = true
			}
		}
	}
	return there
}

// templateOf is the template of the ids of a type that capabilities or servers
// have; nil for another.
func (n *names) templateOf(kind string) *template {
	switch kind {
	case n.Object, n.Prompt:
		return &n.object
	case n.Resource:
		return &n.resource
	case n.Server:
		return &n.server
	}
	return nil
}

// has tells whether a part is in the template.
func (t *template) has(p part) bool {
	return slices.ContainsFunc(t.pieces, func(own piece) bool { return own.part == p })
}

// only tells whether a part is all of the template.
func (t *template) only(p part) bool { return len(t.pieces) == 1 && t.pieces[0].part == p }
