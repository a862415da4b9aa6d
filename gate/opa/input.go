package opa

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Members of input; the first two depend on the arguments of a call.
const (
	inputArgs     = "args"
	inputReplaced = "args_replaced"
	inputContext  = "context"
	inputNames    = "tool_names"
)

// fromCaller are the members of input that tell callers apart, besides
// context.
var fromCaller = []string{"tenant", "persona_id", "user_id", "groups", "scopes", "plan", "issuer", "agent"}

// member is a member of input that is not made of arguments: a text, or a list
// where list is not nil.
type member struct {
	name, text string
	list       []string
}

// members returns the members of the input for a request, but for the arguments
// and what is under context.
func (o *Options) members(r *gate.Request) ([17]member, error) {
	action, err := o.action(r)
	id := r.Identity
	return [...]member{
		{name: "action", text: action},
		{name: "kind", text: r.Kind.String()},
		{name: "resource", text: r.Exposed},
		{name: "tool_name", text: r.Exposed},
		{name: inputNames, list: r.Names().All()},
		{name: "original_name", text: r.Original},
		{name: "server", text: r.Server},
		{name: "capability_id", text: r.CapabilityID},
		{name: "capsule", text: r.Capsule},
		{name: "tenant", text: id.Tenant},
		{name: "persona_id", text: id.Persona},
		{name: "user_id", text: id.Subject},
		{name: "groups", list: listed(id.Groups)},
		{name: "scopes", list: listed(id.Scopes)},
		{name: "plan", text: id.Plan},
		{name: "issuer", text: id.Issuer},
		{name: "agent", text: id.Agent()},
	}, err
}

// surrounding returns what is under context.
func surrounding(r *gate.Request) [5]member {
	id := r.Identity
	return [...]member{
		{name: "tenant_id", text: id.Tenant},
		{name: "persona_id", text: id.Persona},
		{name: "issuer", text: id.Issuer},
		{name: "plan", text: id.Plan},
		{name: "capsule", text: r.Capsule},
	}
}

// document returns the input of a policy for a request. Whole tells that arguments
// of which the policy would not be shown everything are not shown at all.
func (o *Options) document(r *gate.Request, whole bool) (map[string]any, error) {
	members, err := o.members(r)
	if err != nil {
		return nil, err
	}
	in := make(map[string]any, len(members)+3)
	for _, m := range members {
		if m.list != nil {
			in[m.name] = m.list
			continue
		}
		in[m.name] = m.text
	}
	around := make(map[string]any)
	for _, m := range surrounding(r) {
		around[m.name] = m.text
	}
	in[inputContext] = around
	if r.Args == nil && r.Action != gate.Call {
		return in, nil
	}
	args, replaced, err := o.arguments(r, whole)
	if err != nil {
		return nil, err
	}
	in[inputArgs] = args
	if len(replaced) > 0 {
		in[inputReplaced] = replaced
	}
	return in, nil
}

// listed returns a list that is never null, which policies would have to expect.
func listed(of []string) []string {
	if of == nil {
		return []string{}
	}
	return of
}

// action returns the action of a request as the policy reads it.
func (o *Options) action(r *gate.Request) (string, error) {
	var name string
	switch r.Kind {
	case mcp.Tool:
		name = "tool"
	case mcp.Prompt:
		name = "prompt"
	case mcp.Resource, mcp.Template:
		name = "resource"
	case mcp.NoKind: // a whole server, which can only be enabled
	default:
		return "", fmt.Errorf("there is no action for the kind %v", r.Kind)
	}
	switch {
	case r.Action == gate.Enable:
		name = "tool.enable"
	case name != "" && (r.Action == gate.View || r.Action == gate.Call):
		name += "." + string(r.Action)
	default:
		return "", fmt.Errorf("there is no action %q for the kind %v", string(r.Action), r.Kind)
	}
	return cmp.Or(o.Actions[name], name), nil
}

// arguments returns the arguments of a call as a person is shown them, with exact
// numbers: those that the engine is given, see [shown].
func (o *Options) arguments(r *gate.Request, whole bool) (args any, replaced []string, err error) {
	value, replaced, err := o.shown(context.Background(), r.Args, whole)
	if err != nil {
		return nil, nil, err
	}
	if args, err = ast.JSON(value); err != nil {
		return nil, nil, fmt.Errorf("decode the arguments: %w", err)
	}
	return args, replaced, nil
}

// presentable tells whether arguments need no look to be shown: those that do
// may be refused, whatever was decided on others.
func (o *Options) presentable(r *gate.Request) bool {
	return len(r.Args) == 0 || len(r.Args) <= int(o.PolicyInput) && bytes.HasPrefix(bytes.TrimLeft(r.Args, " \t\r\n"), []byte("{"))
}

// decodeJSON decodes one JSON value with exact numbers. What it is given was
// checked by [mcp.Validate] before.
func decodeJSON(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}
