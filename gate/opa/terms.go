package opa

import (
	"context"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// inputKeys are the names of the members of input, made once.
var inputKeys = func() map[string]*ast.Term {
	keys := map[string]*ast.Term{}
	for _, name := range []string{
		"action", "kind", "resource", "tool_name", inputNames, "original_name", "server", "capability_id", "capsule", inputArgs, inputReplaced, inputContext,
		"tenant_id", "tenant", "persona_id", "user_id", "groups", "scopes", "plan", "issuer", "agent",
	} {
		keys[name] = ast.StringTerm(name)
	}
	return keys
}()

// emptyList is a list of nothing, which nobody changes.
var emptyList = ast.NewArray()

// value returns the input for a request as the engine takes it: what document
// returns, of it the members that some rule may read, without a detour over Go's
// own values. It is not an ast.LazyObject: a copy of one is the same one, so that
// what "with" puts into the input would stay there.
func (o *Options) value(ctx context.Context, r *gate.Request, reads *reads) (ast.Value, error) {
	members, err := o.members(r)
	if err != nil {
		return nil, err
	}
	object := ast.NewObjectWithCapacity(len(reads.input))
	for i := range members {
		if m := &members[i]; reads.any(m.name) {
			object.Insert(inputKeys[m.name], m.term())
		}
	}
	if reads.any(inputContext) {
		around := surrounding(r)
		context := ast.NewObjectWithCapacity(len(around))
		for i := range around {
			context.Insert(inputKeys[around[i].name], around[i].term())
		}
		object.Insert(inputKeys[inputContext], ast.NewTerm(context))
	}
	if r.Args == nil && r.Action != gate.Call {
		return object, nil
	}
	return object, o.insertArguments(ctx, object, r, reads)
}

// insertArguments adds the arguments of a call, as far as some rule reads them.
func (o *Options) insertArguments(ctx context.Context, object ast.Object, r *gate.Request, reads *reads) error {
	if !reads.any(inputArgs, inputReplaced) && (len(r.Args) == 0 || mcp.IsObject(r.Args)) {
		return nil
	}
	value, replaced, err := o.shown(ctx, r.Args, !reads.replaced)
	if err != nil {
		return err
	}
	object.Insert(inputKeys[inputArgs], ast.NewTerm(value))
	if len(replaced) > 0 {
		list := member{list: replaced}
		object.Insert(inputKeys[inputReplaced], list.term())
	}
	return nil
}

// term returns the member's value.
func (m *member) term() *ast.Term {
	switch {
	case m.list == nil:
		return ast.StringTerm(m.text)
	case len(m.list) == 0:
		return ast.NewTerm(emptyList)
	}
	elements := make([]*ast.Term, len(m.list))
	for i, text := range m.list {
		elements[i] = ast.StringTerm(text)
	}
	return ast.NewTerm(ast.NewArray(elements...))
}
