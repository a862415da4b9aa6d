package spicedb

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Entry is a subject or relationship as somebody wrote it, and where.
type Entry struct {
	Text string
	File string // empty when it is in none
	Line int    // counted from 1
}

// Entries makes entries of texts that are in no file.
func Entries(texts ...string) []Entry {
	all := make([]Entry, len(texts))
	for i, t := range texts {
		all[i] = Entry{Text: t}
	}
	return all
}

// Config is who may do what, in the shape of [Schema]. Subjects are written
// "user:alice", "team:dev" for its members and "tenant:acme" for its members;
// ids as the mapping's templates make them, in which characters that SpiceDB
// does not take may stand as they are ("user:alice@example.com").
//
// A tool, prompt or resource belongs to the server that offers it; nobody
// needs to say so. It may be executed by its owners and executors and by whoever
// may execute its server, and by nobody who is banned from it.
type Config struct {
	Teams   map[string]Team
	Tenants map[string]Tenant
	Servers map[string]Server
	// Tools and Prompts are by object id: the exposed name unless the mapping
	// says otherwise. Resources are by the id of resources: the server's key.
	Tools, Prompts, Resources map[string]Object
	// Relations are single relationships, such as an explanation proposes:
	// "tool:gh__search#executor@user:alice".
	Relations []Entry
}

// Team is people who may do the same.
type Team struct {
	Members []Entry // users and teams
}

// Tenant is whom servers belong to.
type Tenant struct {
	Admins  []Entry // users; they may execute what the tenant's servers offer
	Members []Entry // users and teams
}

// Server is who may execute everything that a server offers.
type Server struct {
	Tenant    string  // the tenant that it belongs to; empty is none
	Executors []Entry // users, teams and tenants
}

// Object is who may use one tool, prompt or resource.
type Object struct {
	Owners    []Entry // users
	Executors []Entry // users and teams
	Banned    []Entry // users
}

// written is a relationship and where it was written.
type written struct {
	tuple
	at Entry
}

const (
	memberRelation = "member"
	adminRelation  = "admin"
	tenantRelation = "tenant"
	ownerRelation  = "owner"
	executorAccess = "executor" // on servers
	teamType       = "team"
	tenantType     = "tenant"
)

// collector turns a configuration into relationships and gathers what is wrong
// with it.
type collector struct {
	names *names
	all   []written
	wrong []error
}

// relationships returns what a configuration says, each relationship once.
func (c Config) relationships(n *names) ([]written, error) {
	b := &collector{names: n}
	for _, id := range slices.Sorted(maps.Keys(c.Teams)) {
		b.add(ref{teamType, id}, memberRelation, c.Teams[id].Members)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Tenants)) {
		b.add(ref{tenantType, id}, adminRelation, c.Tenants[id].Admins)
		b.add(ref{tenantType, id}, memberRelation, c.Tenants[id].Members)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Servers)) {
		s := c.Servers[id]
		if s.Tenant != "" {
			b.add(ref{n.Server, id}, tenantRelation, Entries(tenantType+":"+s.Tenant))
		}
		b.add(ref{n.Server, id}, executorAccess, s.Executors)
	}
	for _, of := range []struct {
		kind, grant string
		objects     map[string]Object
	}{{n.Object, n.Grant, c.Tools}, {n.Prompt, n.Grant, c.Prompts}, {n.Resource, n.ResourceGrant, c.Resources}} {
		for _, id := range slices.Sorted(maps.Keys(of.objects)) {
			o := of.objects[id]
			b.add(ref{of.kind, id}, ownerRelation, o.Owners)
			b.add(ref{of.kind, id}, of.grant, o.Executors)
			b.add(ref{of.kind, id}, n.Ban, o.Banned)
		}
	}
	for _, e := range c.Relations {
		b.relation(e)
	}
	b.defined(c)
	return b.all, errors.Join(b.wrong...)
}

// add adds the relationships of one object and relation.
func (b *collector) add(object ref, relation string, subjects []Entry) {
	if object.id == "" {
		b.wrong = append(b.wrong, fmt.Errorf("a %s has no name", object.kind))
		return
	}
	object.id = normalID(object.id)
	for _, e := range subjects {
		subject, err := parseSubject(e.Text)
		if err != nil {
			b.fail(e, err)
			continue
		}
		if set := subject.kind == teamType || subject.kind == tenantType && relation != tenantRelation; set && subject.relation == "" {
			subject.relation = memberRelation
		}
		b.keep(tuple{edge{object, relation}, subject}, e)
	}
}

// relation adds a relationship that was written whole.
func (b *collector) relation(e Entry) {
	t, err := parseTuple(e.Text)
	if err != nil {
		b.fail(e, err)
		return
	}
	b.keep(t, e)
}

// keep adds a relationship that the schema's shape has.
func (b *collector) keep(t tuple, e Entry) {
	takes, ok := b.takes(t.edge)
	if !ok {
		b.fail(e, fmt.Errorf("%s has no relation %s", t.object.kind, t.relation))
		return
	}
	kind := t.subject.kind
	if t.subject.relation != "" {
		kind += "#" + t.subject.relation
	}
	if !slices.Contains(takes, kind) {
		b.fail(e, fmt.Errorf("%s#%s does not take a %s, but %v", t.object.kind, t.relation, kind, takes))
		return
	}
	b.all = append(b.all, written{t, e})
}

// takes returns the kinds of subjects that a relation takes.
func (b *collector) takes(e edge) (kinds []string, ok bool) {
	n := b.names
	user, team, tenant := n.Subject, teamType+"#"+memberRelation, tenantType+"#"+memberRelation
	switch e.object.kind {
	case teamType:
		kinds, ok = map[string][]string{memberRelation: {user, team}}[e.relation]
	case tenantType:
		kinds, ok = map[string][]string{adminRelation: {user}, memberRelation: {user, team}}[e.relation]
	case n.Server:
		kinds, ok = map[string][]string{tenantRelation: {tenantType}, executorAccess: {user, team, tenant}}[e.relation]
	case n.Object, n.Prompt, n.Resource:
		grant := n.Grant
		if e.object.kind == n.Resource {
			grant = n.ResourceGrant
		}
		kinds, ok = map[string][]string{
			n.ServerRelation: {n.Server}, ownerRelation: {user}, grant: {user, team}, n.Ban: {user},
		}[e.relation]
	}
	return kinds, ok
}

// defined reports teams and tenants that are named and that nobody is in or
// has defined: a name that means nothing is a mistake.
func (b *collector) defined(c Config) {
	known := map[ref]bool{}
	for id := range c.Teams {
		known[ref{teamType, normalID(id)}] = true
	}
	for id := range c.Tenants {
		known[ref{tenantType, normalID(id)}] = true
	}
	for _, w := range b.all {
		known[w.object] = true
	}
	for _, w := range b.all {
		if s := w.subject.ref; (s.kind == teamType || s.kind == tenantType) && !known[s] {
			b.fail(w.at, fmt.Errorf("there is no %s %s", s.kind, s.id))
		}
	}
}

func (b *collector) fail(e Entry, err error) {
	if e.File != "" {
		err = fmt.Errorf("%s:%d: %w", e.File, e.Line, err)
	}
	b.wrong = append(b.wrong, err)
}
