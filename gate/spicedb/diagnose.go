package spicedb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	authzed "github.com/authzed/authzed-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// watchTry is how long a server has to refuse a Watch stream.
const watchTry = 500 * time.Millisecond

// Problem is something that [Phase.Diagnose] found.
type Problem struct {
	// Warning tells that decisions are made all the same.
	Warning bool
	What    string
	Do      string // what to do about it
	// Schema tells that the server answered, and that its schema is absent or
	// lacks something.
	Schema bool
}

// String returns both sentences.
func (p Problem) String() string { return p.What + ": " + p.Do }

// Diagnose asks whether the server answers, whether its schema has the types
// and permissions that the mapping names, whether its caveats take the context
// that is sent, and whether it can watch. It returns everything that is wrong,
// and nil when nothing is. It takes some seconds at most and writes nothing.
func (p *Phase) Diagnose(ctx context.Context) []Problem {
	if p.client == nil {
		return []Problem{{What: errZero.Error(), Do: "use New"}}
	}
	var schema *v1.ReflectSchemaResponse
	err := p.client.direct(ctx, "read the schema", adminTimeout, func(ctx context.Context, api *authzed.Client) (err error) {
		schema, err = api.ReflectSchema(ctx, &v1.ReflectSchemaRequest{Consistency: (&generation{}).consistency(true)})
		return err
	})
	if err != nil {
		return []Problem{unreadable(err)}
	}
	problems := p.lacks(schema.GetDefinitions())
	problems = append(problems, caveatProblems(schema.GetCaveats())...)
	for i := range problems {
		problems[i].Schema = true
	}
	if err := p.tryWatch(ctx); err != nil {
		problems = append(problems, Problem{
			Warning: true,
			What:    "the server does not let relationships be watched (" + message(err) + ")",
			Do:      "turn Watch on (PostgreSQL needs track_commit_timestamp=on); until then every decision is one question to the server",
		})
	}
	return problems
}

// unreadable is the problem that the schema cannot be read.
func unreadable(err error) Problem {
	cause := err
	if failed, ok := errors.AsType[*Error](err); ok {
		cause = failed.Err
	}
	switch status.Code(cause) {
	case codes.NotFound:
		return Problem{Schema: true, What: "the server has no schema", Do: "write one, such as:\n" + Schema}
	case codes.Unimplemented:
		return Problem{What: "the server does not tell its schema", Do: "see that the endpoint is a SpiceDB of version 1.36 or later"}
	default:
		return Problem{What: fmt.Sprintf("the schema cannot be read: %s", message(cause)), Do: advice(cause)}
	}
}

// need is a permission that the phase asks for.
type need struct {
	kind, permission string
	warning          bool // not every gateway has such objects
}

func (p *Phase) needs() []need {
	n := p.names
	all := []need{
		{n.Object, n.Permission, false},
		{n.Prompt, n.Permission, true},
		{n.Resource, n.ResourcePermission, true},
	}
	if n.ViewPermission != "" {
		for _, x := range all[:3:3] {
			all = append(all, need{x.kind, n.ViewPermission, x.warning})
		}
	}
	slices.SortStableFunc(all, func(a, b need) int { return strings.Compare(a.kind, b.kind) })
	return slices.Compact(all)
}

// lacks compares a schema with what the phase asks for.
func (p *Phase) lacks(definitions []*v1.ReflectionDefinition) []Problem {
	known := map[string]*v1.ReflectionDefinition{}
	for _, d := range definitions {
		known[d.GetName()] = d
	}
	var problems []Problem
	if known[p.names.Subject] == nil {
		problems = append(problems, Problem{
			What: "the schema has no type " + p.names.Subject,
			Do:   "add: definition " + p.names.Subject + " {}",
		})
	}
	missing := map[string]bool{}
	for _, n := range p.needs() {
		d := known[n.kind]
		switch {
		case d == nil && !missing[n.kind]:
			missing[n.kind] = true
			problems = append(problems, Problem{
				Warning: n.warning, What: "the schema has no type " + n.kind,
				Do: fmt.Sprintf("add a definition %s with a permission %s; until then nothing of that type is allowed", n.kind, n.permission),
			})
		case d != nil && !offers(d, n.permission):
			problems = append(problems, Problem{
				Warning: n.warning, What: fmt.Sprintf("the type %s has no permission %s", n.kind, n.permission),
				Do: fmt.Sprintf("add to definition %s: permission %s = ... ; it has %s", n.kind, n.permission, offered(d)),
			})
		}
	}
	if d := known[p.names.Object]; d != nil && !offers(d, p.names.ServerRelation) {
		problems = append(problems, Problem{
			Warning: true, What: fmt.Sprintf("the type %s has no relation %s", p.names.Object, p.names.ServerRelation),
			Do: fmt.Sprintf("add relation %s: %s to it where a grant on a server is to hold for its tools; toolgate catalog sync writes it", p.names.ServerRelation, p.names.Server),
		})
	}
	return problems
}

// offers tells whether a definition has a permission or relation: SpiceDB
// checks both.
func offers(d *v1.ReflectionDefinition, name string) bool {
	return slices.Contains(namesIn(d), name)
}

func offered(d *v1.ReflectionDefinition) string {
	all := namesIn(d)
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func namesIn(d *v1.ReflectionDefinition) []string {
	var all []string
	for _, x := range d.GetPermissions() {
		all = append(all, x.GetName())
	}
	for _, x := range d.GetRelations() {
		all = append(all, x.GetName())
	}
	return all
}

// caveatProblems finds parameters that cannot take what is sent under their
// name, which makes every question about such a relationship an error.
func caveatProblems(caveats []*v1.ReflectionCaveat) []Problem {
	var problems []Problem
	for _, c := range caveats {
		for _, parameter := range c.GetParameters() {
			fit, sent := contextTypes[parameter.GetName()]
			if !sent || slices.Contains(fit, parameter.GetType()) {
				continue
			}
			problems = append(problems, Problem{
				What: fmt.Sprintf("the caveat %s wants %s as %s", c.GetName(), parameter.GetName(), parameter.GetType()),
				Do:   fmt.Sprintf("toolgate sends it as %s: change the type or rename the parameter", fit[0]),
			})
		}
	}
	return problems
}

// tryWatch opens a Watch stream and returns what the server says against it.
func (p *Phase) tryWatch(ctx context.Context) error {
	api, err := p.client.connection()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, watchTry, errOverdue)
	defer cancel()
	watch, err := api.Watch(ctx, &v1.WatchRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err == nil || late(ctx, err) { // it did not refuse
		return nil
	}
	return err
}
