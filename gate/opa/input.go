package opa

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// shortest is the length from which on a string may be replaced, in bytes.
const shortest = 1 << 10

// Members of input; the first two depend on the arguments of a call.
const (
	inputArgs     = "args"
	inputReplaced = "args_replaced"
	inputContext  = "context"
	inputNames    = "tool_names"
)

// fromCaller are the members of input that tell callers apart, besides
// context.
var fromCaller = []string{"tenant", "persona_id", "user_id", "groups", "scopes", "plan", "issuer"}

// member is a member of input that is not made of arguments: a text, or a list
// where list is not nil.
type member struct {
	name, text string
	list       []string
}

// members returns the members of the input for a request, but for the arguments
// and what is under context.
func (o *Options) members(r *gate.Request) ([16]member, error) {
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

// document returns the input of a policy for a request.
func (o *Options) document(r *gate.Request) (map[string]any, error) {
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
	args, replaced, err := arguments(r.Args, o.MaxInput)
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
	case mcp.NoCapability: // a whole server, which can only be enabled
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

// errInput is what a request is denied with whose arguments no policy can see.
type errInput struct{ size, limit int }

// Error implements error.
func (e errInput) Error() string {
	return fmt.Sprintf("the arguments have %d bytes after their long strings were replaced, and a policy is shown at most %d (limits.policy_input)", e.size, e.limit)
}

// arguments decodes the arguments of a call with exact numbers. Where they are
// larger than limit, their longest strings are replaced by
// {"size": bytes, "sha256": "hex"}; replaced has their JSON pointers.
func arguments(raw []byte, limit int) (args any, replaced []string, err error) {
	if len(raw) == 0 {
		return map[string]any{}, nil, nil
	}
	args, err = decodeJSON(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("decode the arguments: %w", err)
	}
	if _, ok := args.(map[string]any); !ok {
		return nil, nil, fmt.Errorf("the arguments are %s and must be an object", kindOf(args))
	}
	if len(raw) <= limit {
		return args, nil, nil
	}
	replaced, left := shorten(args, len(raw), limit)
	if left > limit {
		return nil, nil, errInput{left, limit}
	}
	return args, replaced, nil
}

// presentable tells whether arguments need no look to be shown: those that do
// may be refused, whatever was decided on others.
func (o *Options) presentable(r *gate.Request) bool {
	return len(r.Args) == 0 || len(r.Args) <= o.MaxInput && bytes.HasPrefix(bytes.TrimLeft(r.Args, " \t\r\n"), []byte("{"))
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

// longString is a string in the arguments that may be replaced.
type longString struct {
	text    string
	pointer string // RFC 6901
	replace func(any)
}

// shorten replaces the longest strings of args, which have size bytes, until
// they have at most limit or no long string is left.
func shorten(args any, size, limit int) (pointers []string, left int) {
	var long []longString
	longStrings(args, "", nil, func(s longString) { long = append(long, s) })
	slices.SortFunc(long, func(a, b longString) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.pointer, b.pointer))
	})
	for _, s := range long {
		if size <= limit {
			break
		}
		sum := sha256.Sum256([]byte(s.text))
		mark := map[string]any{"size": json.Number(strconv.Itoa(len(s.text))), "sha256": hex.EncodeToString(sum[:])}
		s.replace(mark)
		pointers = append(pointers, s.pointer)
		size -= len(s.text) - 2*sha256.Size - len(`{"size":1000000000,"sha256":""}`)
	}
	slices.Sort(pointers)
	return pointers, size
}

// longStrings finds the strings of at least [shortest] bytes.
func longStrings(v any, pointer string, replace func(any), found func(longString)) {
	switch v := v.(type) {
	case string:
		if len(v) >= shortest {
			found(longString{v, pointer, replace})
		}
	case []any:
		for i, e := range v {
			longStrings(e, pointer+"/"+strconv.Itoa(i), func(by any) { v[i] = by }, found)
		}
	case map[string]any:
		for k, e := range v {
			longStrings(e, pointer+"/"+escapePointer.Replace(k), func(by any) { v[k] = by }, found)
		}
	}
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")
