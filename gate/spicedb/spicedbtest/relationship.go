package spicedbtest

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/toolgate/toolgate/gate/spicedb"
)

// Schema is [spicedb.Schema] with two more caveats, which say what came with a
// question: at_address needs an ip that no gateway sends, and sent compares
// the rest.
var Schema = strings.ReplaceAll(spicedb.Schema, "user with business_hours", "user with business_hours | user with at_address | user with sent") + `
caveat at_address(ip string, address string) {
	ip == address
}

caveat sent(now timestamp, hour int, tenant string, persona string, groups list<string>, action string, want_action string, want_group string) {
	now > timestamp("2020-01-01T00:00:00Z") && hour >= 0 && tenant == "acme" && persona == "bot" && action == want_action && want_group in groups
}
`

// Relationship reads a relationship as zed writes it, with or without a caveat:
// tool:x#executor@user:alice[business_hours:{"from":9,"to":17}].
func Relationship(text string) (*v1.Relationship, error) {
	bad := fmt.Errorf("%q is not a relationship", text)
	body, caveat, caveated := strings.Cut(text, "[")
	object, rest, ok := strings.Cut(body, "#")
	relation, subject, also := strings.Cut(rest, "@")
	if !ok || !also {
		return nil, bad
	}
	rel := &v1.Relationship{Relation: relation, Subject: &v1.SubjectReference{}}
	subject, rel.Subject.OptionalRelation, _ = strings.Cut(subject, "#")
	if rel.Resource, ok = reference(object); !ok {
		return nil, bad
	}
	if rel.Subject.Object, ok = reference(subject); !ok {
		return nil, bad
	}
	if caveated {
		name, data, _ := strings.Cut(strings.TrimSuffix(caveat, "]"), ":")
		rel.OptionalCaveat = &v1.ContextualizedCaveat{CaveatName: name}
		if data != "" {
			var fields map[string]any
			if err := json.Unmarshal([]byte(data), &fields); err != nil {
				return nil, fmt.Errorf("%w: %w", bad, err)
			}
			context, err := structpb.NewStruct(fields)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", bad, err)
			}
			rel.OptionalCaveat.Context = context
		}
	}
	return rel, nil
}

func reference(text string) (*v1.ObjectReference, bool) {
	kind, id, ok := strings.Cut(text, ":")
	return &v1.ObjectReference{ObjectType: kind, ObjectId: id}, ok && kind != "" && id != ""
}

// key is a relationship without its caveat, by which it is known.
func key(r *v1.Relationship) string {
	return objectText(r.GetResource()) + "#" + r.GetRelation() + "@" + subjectText(r.GetSubject())
}

func objectText(o *v1.ObjectReference) string { return o.GetObjectType() + ":" + o.GetObjectId() }

func subjectText(s *v1.SubjectReference) string {
	if s.GetOptionalRelation() == "" {
		return objectText(s.GetObject())
	}
	return objectText(s.GetObject()) + "#" + s.GetOptionalRelation()
}
