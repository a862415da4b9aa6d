package proxy

import (
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result"
)

// ToolShape changes how one tool is shown and called (DESIGN 6, Shaping).
type ToolShape struct {
	Hidden      bool
	Rename      string // shown instead of its name
	Description string // shown instead of its description
	Annotations []byte // raw JSON object, merged over its annotations; nil keeps them
	Arguments   map[string]ArgumentShape
	// Timeout, Idle and Hard bound one call as in [mcp.Call]; 0 keeps the server's.
	Timeout, Idle, Hard time.Duration
	Cost                int64 // of one call, in cost units; 0 counts as 1
	// Results replace the rules of the mount; nil keeps them.
	Results *result.Rules
}

// ArgumentShape changes one argument of a tool.
type ArgumentShape struct {
	Fixed   []byte // raw JSON value that is always sent; nil when not fixed
	Default []byte // raw JSON value that is sent where the caller gives none
	Hidden  bool   // not shown
}

// render returns the tool as it is listed under a name.
func (s *ToolShape) render(raw []byte, name string) []byte {
	out := mcp.SetMember(raw, "name", mcp.Quote(name))
	if s == nil {
		return out
	}
	if s.Description != "" {
		out = mcp.SetMember(out, "description", mcp.Quote(s.Description))
	}
	if s.Annotations != nil {
		annotations := mcp.Lookup(out, "annotations")
		if !mcp.IsObject(annotations) {
			annotations = nil
		}
		for m := range mcp.Members(s.Annotations) {
			key, _ := mcp.Unquote(m.Key(s.Annotations))
			annotations = mcp.SetMember(annotations, key, m.Value.Of(s.Annotations))
		}
		out = mcp.SetMember(out, "annotations", annotations)
	}
	if schema := mcp.Lookup(out, "inputSchema"); mcp.IsObject(schema) {
		if shaped := s.schema(schema); len(shaped) != len(schema) || string(shaped) != string(schema) {
			out = mcp.SetMember(out, "inputSchema", shaped)
		}
	}
	return out
}

// schema leaves out the arguments that the caller does not give and says what
// the default of the others is.
func (s *ToolShape) schema(schema []byte) []byte {
	for _, name := range sortedKeys(s.Arguments) {
		arg := s.Arguments[name]
		properties := mcp.Lookup(schema, "properties")
		if properties == nil {
			return schema
		}
		if arg.Fixed != nil || arg.Hidden {
			schema = mcp.SetMember(schema, "properties", mcp.RemoveMember(properties, name))
			schema = optional(schema, name)
			continue
		}
		if property := mcp.Lookup(properties, name); arg.Default != nil && mcp.IsObject(property) {
			property = mcp.SetMember(property, "default", arg.Default)
			schema = mcp.SetMember(schema, "properties", mcp.SetMember(properties, name, property))
			schema = optional(schema, name)
		}
	}
	return schema
}

// optional takes a name out of the required ones.
func optional(schema []byte, name string) []byte {
	required := mcp.Lookup(schema, "required")
	var kept []byte
	found := false
	for e := range mcp.Elements(required) {
		token := e.Of(required)
		if text, err := mcp.Unquote(token); err == nil && text == name {
			found = true
			continue
		}
		if kept != nil {
			kept = append(kept, ',')
		}
		kept = append(kept, token...)
	}
	if !found {
		return schema
	}
	if kept == nil {
		return mcp.RemoveMember(schema, "required")
	}
	return mcp.SetMember(schema, "required", slices.Concat([]byte("["), kept, []byte("]")))
}

// arguments returns the arguments of a call with fixed ones set and missing
// ones filled in. A fixed or hidden argument that the caller gives, in any
// spelling, is an error: it is not the caller's to choose.
func (s *ToolShape) arguments(given []byte) ([]byte, *mcp.Error) {
	if s == nil || len(s.Arguments) == 0 {
		return given, nil
	}
	if given != nil && !mcp.IsObject(given) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, `"arguments" must be an object`)
	}
	for m := range mcp.Members(given) {
		key, _ := mcp.Unquote(m.Key(given))
		for name, arg := range s.Arguments {
			if (arg.Fixed != nil || arg.Hidden) && strings.EqualFold(name, key) {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "the argument %q is set by the gateway and cannot be given", name)
			}
		}
	}
	out := given
	for _, name := range sortedKeys(s.Arguments) {
		arg := s.Arguments[name]
		switch {
		case arg.Fixed != nil:
			out = mcp.SetMember(out, name, arg.Fixed)
		case arg.Default != nil && mcp.LookupSpan(out, name).Absent():
			out = mcp.SetMember(out, name, arg.Default)
		}
	}
	return out, nil
}

// finalArguments are the arguments of a call as the server will get them, or as
// they came where they cannot be made so.
func (r *Route) finalArguments(call *mcp.Message) []byte {
	given := call.Param("arguments")
	if final, fault := r.shape.arguments(given); fault == nil {
		return final
	}
	return given
}

// argumentsOf are the arguments of a request as the server will get them: the final
// ones of a tool, those of a prompt, and those that are known where one of them is
// completed. They are nil for everything else.
func (r *Route) argumentsOf(x *Exchange) []byte {
	switch {
	case r.Kind == mcp.Tool:
		return r.finalArguments(&x.Message)
	case x.Message.Method == mcp.MethodPromptsGet:
		return x.Message.Param("arguments")
	case x.Message.Method == mcp.MethodComplete:
		return completionArguments(x.Message.Params())
	}
	return nil
}

// completionArguments are the arguments in the params of completion/complete, under their
// names: what was begun of the one that is completed, and the others that are known.
func completionArguments(params []byte) []byte {
	known := mcp.Lookup(params, "context", "arguments")
	if !mcp.IsObject(known) {
		known = nil
	}
	argument := mcp.Lookup(params, "argument")
	name, ok := mcp.LookupString(argument, "name")
	if value := mcp.Lookup(argument, "value"); ok && value != nil {
		known = mcp.SetMember(known, name, value)
	}
	return known
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
