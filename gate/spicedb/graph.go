package spicedb

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// graph is relationships, ready to be walked. It is not changed once made.
type graph struct {
	revision string
	all      []written
	objects  map[ref]object // by the object of the relationships
	// in are the sets that a subject is in, however deep, with the
	// relationships that lead from the set to it.
	in map[ref]map[subjectSet][]written
}

// object is the relationships of one object, by their names. The nil object has
// none, as most tools do.
type object map[string]*related

// related is the relationships of one name that an object has.
type related struct {
	all    []written
	direct map[ref]*written // those whose subject is one object, by it
	sets   []written        // those whose subject is a set
}

// written returns the relationships of a name; none when there are none.
func (o object) written(relation string) []written {
	if r := o[relation]; r != nil {
		return r.all
	}
	return nil
}

// newGraph returns the graph of relationships.
func newGraph(all []written) *graph {
	g := &graph{all: all, objects: map[ref]object{}, in: map[ref]map[subjectSet][]written{}}
	sum := sha256.New()
	members := map[subjectSet][]written{} // a subject to the sets that it is in itself
	for i := range all {
		w := all[i]
		fmt.Fprintln(sum, w.tuple)
		g.relation(w.edge).add(&all[i])
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

// relation returns what an object has of one name, made where there is none yet.
func (g *graph) relation(e edge) *related {
	o := g.objects[e.object]
	if o == nil {
		o = object{}
		g.objects[e.object] = o
	}
	r := o[e.relation]
	if r == nil {
		r = &related{direct: map[ref]*written{}}
		o[e.relation] = r
	}
	return r
}

func (r *related) add(w *written) {
	r.all = append(r.all, *w)
	if w.subject.relation == "" {
		r.direct[w.subject.ref] = w
	} else {
		r.sets = append(r.sets, *w)
	}
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
func (g *graph) path(of object, relation string, subject ref) trail {
	r := of[relation]
	if r == nil {
		return trail{}
	}
	if w, ok := r.direct[subject]; ok {
		return trail{first: [3]*written{2: w}}
	}
	if len(r.sets) == 0 {
		return trail{}
	}
	in := g.in[subject]
	for i := range r.sets {
		if rest, ok := in[r.sets[i].subject]; ok {
			return trail{first: [3]*written{2: &r.sets[i]}, rest: rest}
		}
	}
	return trail{}
}

// server returns the relationships by which a subject may execute everything
// of a server.
func (g *graph) server(server, subject ref) trail {
	object := g.objects[server]
	if path := g.path(object, executorAccess, subject); path.found() {
		return path
	}
	tenants := object.written(tenantRelation)
	for i := range tenants {
		if path := g.path(g.objects[tenants[i].subject.ref], adminRelation, subject); path.found() {
			return path.behind(&tenants[i])
		}
	}
	return trail{}
}
