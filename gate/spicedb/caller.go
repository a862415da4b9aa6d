package spicedb

import (
	"strings"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/toolgate/toolgate/gate"
)

// caller is who asks, as caveats see them.
type caller struct {
	id     *gate.Identity
	action gate.Action
	zone   *time.Location
}

// context is the caveat context that goes with every question. SpiceDB ignores
// what a caveat does not name, and prefers what stands on a relationship.
func (c caller) context() *structpb.Struct {
	now := time.Now().In(c.zone)
	groups := make([]*structpb.Value, len(c.id.Groups))
	for i, g := range c.id.Groups {
		groups[i] = text(g)
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"now":     text(now.Format(time.RFC3339)),
		"hour":    structpb.NewNumberValue(float64(now.Hour())),
		"tenant":  text(c.id.Tenant),
		"persona": text(c.id.Persona),
		"groups":  structpb.NewListValue(&structpb.ListValue{Values: groups}),
		"action":  text(string(c.action)),
	}}
}

// text is a string value. Protocol Buffers take valid UTF-8 only, and one
// caller's bytes must not fail the questions of others.
func text(s string) *structpb.Value {
	return structpb.NewStringValue(strings.ToValidUTF8(s, "\uFFFD"))
}

// contextTypes are the types that a caveat's parameters of these names may
// have to take what [caller.context] sends.
var contextTypes = map[string][]string{
	"now":     {"timestamp", "string", "any"},
	"hour":    {"int", "uint", "double", "any"},
	"tenant":  {"string", "any"},
	"persona": {"string", "any"},
	"groups":  {"list<string>", "list<any>", "any"},
	"action":  {"string", "any"},
}

// object is the reference as SpiceDB takes it.
func (r ref) object() *v1.ObjectReference {
	return &v1.ObjectReference{ObjectType: r.kind, ObjectId: r.id}
}

// subject is the reference as SpiceDB takes it.
func (r ref) subject() *v1.SubjectReference { return &v1.SubjectReference{Object: r.object()} }

// refused is the reason of a deny.
func refused(q question) string {
	return q.subject.String() + " has no " + q.permission + " on " + q.object.String()
}

// conditional is the reason of a deny for want of context.
func conditional(q question, missing []string) string {
	reason := q.subject.String() + " has " + q.permission + " on " + q.object.String() + " only under a condition"
	if len(missing) == 0 {
		return reason
	}
	return reason + ", which needs " + strings.Join(missing, ", ")
}
