package opa

import (
	"encoding/json"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// inputKeys are the names of the members of input, made once.
var inputKeys = func() map[string]*ast.Term {
	keys := map[string]*ast.Term{}
	for _, name := range []string{
		"action", "kind", "resource", "tool_name", inputNames, "original_name", "server", "capability_id", "capsule", inputArgs, inputReplaced, inputContext,
		"tenant_id", "tenant", "persona_id", "user_id", "groups", "scopes", "plan", "issuer",
	} {
		keys[name] = ast.StringTerm(name)
	}
	return keys
}()

// maxDigits bounds the length of a number. The engine computes exactly, in a time
// that grows faster than the number and cannot be bounded otherwise.
const maxDigits = 1000

// emptyList is a list of nothing, which nobody changes.
var emptyList = ast.NewArray()

// value returns the input for a request as the engine takes it: what document
// returns, of it the members that some rule may read, without a detour over Go's
// own values. It is not an ast.LazyObject: a copy of one is the same one, so that
// what "with" puts into the input would stay there.
func (o *Options) value(r *gate.Request, reads *reads) (ast.Value, error) {
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
	return object, o.insertArguments(object, r, reads)
}

// insertArguments adds the arguments of a call. Those that no rule reads are held
// against what a policy can be shown all the same.
func (o *Options) insertArguments(object ast.Object, r *gate.Request, reads *reads) error {
	fits := o.presentable(r)
	if fits && !reads.any(inputArgs) {
		return nil
	}
	value, err := argumentsValue(r.Args)
	if err != nil {
		return err
	}
	if fits {
		object.Insert(inputKeys[inputArgs], ast.NewTerm(value))
		return nil
	}
	args, replaced, err := arguments(r.Args, o.MaxInput)
	if err != nil {
		return err
	}
	value, err = ast.InterfaceToValue(args)
	if err != nil {
		return fmt.Errorf("input: %w", err)
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

// argumentsValue returns the arguments of a call with exact numbers. They were
// checked by [mcp.Validate] before; nothing is an empty object.
func argumentsValue(raw []byte) (ast.Value, error) {
	if len(raw) == 0 {
		return ast.NewObject(), nil
	}
	l := mcp.NewLexer(raw)
	value, err := valueOf(&l)
	if err != nil {
		return nil, fmt.Errorf("decode the arguments: %w", err)
	}
	return value, nil
}

// valueOf reads one value.
func valueOf(l *mcp.Lexer) (ast.Value, error) {
	switch l.Peek() {
	case '{':
		object := ast.NewObject()
		for l.Skip(1); l.Peek() == '"'; {
			key, err := l.Text()
			if err != nil {
				return nil, err
			}
			value, err := valueOf(l)
			if err != nil {
				return nil, err
			}
			object.Insert(ast.StringTerm(key), ast.NewTerm(value))
		}
		l.Skip(1)
		return object, nil
	case '[':
		var elements []*ast.Term
		l.Skip(1)
		for c := l.Peek(); c != ']' && c != 0; c = l.Peek() {
			value, err := valueOf(l)
			if err != nil {
				return nil, err
			}
			elements = append(elements, ast.NewTerm(value))
		}
		l.Skip(1)
		return ast.NewArray(elements...), nil
	case '"':
		text, err := l.Text()
		return ast.String(text), err
	case 't':
		l.Skip(len("true"))
		return ast.InternedTerm(true).Value, nil
	case 'f':
		l.Skip(len("false"))
		return ast.InternedTerm(false).Value, nil
	case 'n':
		l.Skip(len("null"))
		return ast.NullValue, nil
	}
	number := l.Number()
	if len(number) > maxDigits {
		return nil, fmt.Errorf("a number of %d digits; a policy is shown at most %d", len(number), maxDigits)
	}
	return ast.InterfaceToValue(json.Number(number))
}
