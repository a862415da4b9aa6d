package spicedb

import (
	"fmt"
	"strings"
)

// subjectSet is a subject, or everyone who has a relation to it.
type subjectSet struct {
	ref
	relation string // "member" in team:dev#member; empty for one object
}

func (s subjectSet) String() string {
	if s.relation == "" {
		return s.ref.String()
	}
	return s.ref.String() + "#" + s.relation
}

// edge is what one relationship says of its resource and relation.
type edge struct {
	object   ref
	relation string
}

// tuple is a relationship.
type tuple struct {
	edge
	subject subjectSet
}

func (t tuple) String() string {
	return t.object.String() + "#" + t.relation + "@" + t.subject.String()
}

// parseTuple reads "tool:x#executor@user:alice" or, with a set as its subject,
// "tool:x#executor@team:dev#member".
func parseTuple(text string) (tuple, error) {
	left, right, ok := strings.Cut(text, "@")
	// The ids of both sides may have been written with an at sign in them.
	for ok && !strings.Contains(left, "#") {
		more, rest, again := strings.Cut(right, "@")
		left, right, ok = left+"@"+more, rest, again
	}
	object, relation, has := strings.Cut(left, "#")
	if !ok || !has {
		return tuple{}, fmt.Errorf("%q is not a relationship: write it as tool:x#executor@user:alice", text)
	}
	resource, err := parseRef(object)
	if err != nil {
		return tuple{}, fmt.Errorf("%q: %w", text, err)
	}
	subject, err := parseSubject(right)
	if err != nil {
		return tuple{}, fmt.Errorf("%q: %w", text, err)
	}
	if !relationName.MatchString(relation) {
		return tuple{}, fmt.Errorf("%q: %q is not a relation", text, relation)
	}
	return tuple{edge{resource, relation}, subject}, nil
}

// parseSubject reads "user:alice" or "team:dev#member".
func parseSubject(text string) (subjectSet, error) {
	object, relation, set := strings.Cut(text, "#")
	r, err := parseRef(object)
	if err != nil {
		return subjectSet{}, err
	}
	if set && !relationName.MatchString(relation) {
		return subjectSet{}, fmt.Errorf("%q is not a relation", relation)
	}
	return subjectSet{r, relation}, nil
}

// parseRef reads "user:alice". What SpiceDB does not take in an id is escaped.
func parseRef(text string) (ref, error) {
	kind, id, ok := strings.Cut(text, ":")
	if !ok || id == "" || !typeName.MatchString(kind) {
		return ref{}, fmt.Errorf("%q is not an object: write it as user:alice", text)
	}
	return ref{kind, normalID(id)}, nil
}
