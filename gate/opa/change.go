package opa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// wherePolicy is the place of a change that no data can bring about.
const wherePolicy = "policy"

// edit is the value of a change, as JSON.
type edit struct {
	// Set has members that are put into the key of data, at any depth.
	Set any `json:"set,omitempty"`
	// Remove has elements that are taken out of the lists in the key of data,
	// below the same members.
	Remove any `json:"remove,omitempty"`
}

// Apply returns the data with a change of an explanation made; the receiver
// stays as it is. Where names a member of data, and Value is one of
//
//	{"set": {"acme": {"fs__read": {"enabled": true}}}}   members to put there
//	{"remove": {"bot": ["fs__read"]}}                    elements to take out
//
// A change whose Where is "policy" is not one of data, and an error. Where the
// key is in a data file of the policy, the change has to be made there.
func (d Data) Apply(c gate.Change) (Data, error) {
	check := shapes[c.Where]
	if check == nil {
		return Data{}, fmt.Errorf("a change of %q is not one of data", c.Where)
	}
	v, err := decodeJSON([]byte(c.Value))
	if err != nil {
		return Data{}, fmt.Errorf("the value of the change: %w", err)
	}
	m, _ := v.(map[string]any)
	e := edit{Set: m["set"], Remove: m["remove"]}
	if (e.Set == nil) == (e.Remove == nil) || len(m) != 1 {
		return Data{}, errors.New("the value of the change must be an object with either set or remove")
	}
	normal, err := d.normal()
	if err != nil {
		return Data{}, err
	}
	data := maps.Clone(normal.members)
	data[c.Where] = e.apply(data[c.Where])
	if err := checkShapes(data, func(string) string { return "" }); err != nil {
		return Data{}, fmt.Errorf("with the change: %w", err)
	}
	return dataOf(data), nil
}

// apply returns v with the edit made. It changes nothing in v.
func (e edit) apply(v any) any {
	if e.Set != nil {
		return set(v, e.Set)
	}
	return remove(v, e.Remove)
}

func set(v, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	old, _ := v.(map[string]any)
	out := make(map[string]any, len(old)+len(members))
	maps.Copy(out, old)
	for k, p := range members {
		out[k] = set(old[k], p)
	}
	return out
}

func remove(v, patch any) any {
	switch patch := patch.(type) {
	case map[string]any:
		old, ok := v.(map[string]any)
		if !ok {
			return v
		}
		out := maps.Clone(old)
		for k, p := range patch {
			if _, ok := out[k]; ok {
				out[k] = remove(out[k], p)
			}
		}
		return out
	case []any:
		old, ok := v.([]any)
		if !ok {
			return v
		}
		return slices.DeleteFunc(slices.Clone(old), func(e any) bool {
			return slices.ContainsFunc(patch, func(p any) bool { return equal(e, p) })
		})
	}
	return v
}

// candidate is a change of data that a policy may be asking for.
type candidate struct {
	where string
	edit  edit
	text  string
}

// change finds what would turn a deny. It tries what the gateway's keys of
// data could say instead, and keeps what the policy really needs: so it is
// right for any policy that reads these keys, and says that it is the policy
// itself where they are not enough.
func (p *Phase) change(ctx context.Context, now *policy, in map[string]any, rules []gate.Rule) gate.Change {
	needed, ok := now.needed(ctx, in, candidates(now.data, in))
	if !ok || len(needed) == 0 {
		text := p.o.Decision + " would have to allow"
		if len(rules) > 0 {
			text += "; what denies is " + rules[0].String()
		}
		return gate.Change{Where: wherePolicy, Text: text}
	}
	first := needed[0]
	value, err := json.Marshal(first.edit)
	if err != nil {
		return gate.Change{Where: wherePolicy, Text: first.text}
	}
	text := first.text
	if file := now.origin[first.where]; file != "" && first.edit.says(now.compiled.data[first.where]) {
		text += " in " + file
	}
	if more := len(needed) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more after that", more)
	}
	return gate.Change{Where: first.where, Value: string(value), Text: text}
}

// needed returns the candidates that are needed for an allow, none of which
// can be left out; ok is false where all of them together do not lead to one.
func (p *policy) needed(ctx context.Context, in map[string]any, all []candidate) (list []candidate, ok bool) {
	if !p.allows(ctx, in, all) {
		return nil, false
	}
	list = slices.Clone(all)
	for i := range slices.Backward(all) { // so that what is before i is all there
		without := slices.Delete(slices.Clone(list), i, i+1)
		if p.allows(ctx, in, without) {
			list = without
		}
	}
	return list, true
}

// allows tells whether the policy would allow with other data.
func (p *policy) allows(ctx context.Context, in map[string]any, changes []candidate) bool {
	txn, err := p.store.NewTransaction(ctx, storage.WriteParams)
	if err != nil {
		return false
	}
	// What was written is seen in this transaction alone and never committed.
	defer p.store.Abort(ctx, txn)
	values := map[string]any{}
	for _, c := range changes {
		old, ok := values[c.where]
		if !ok {
			old = p.data[c.where]
		}
		values[c.where] = c.edit.apply(old)
	}
	for key, v := range values {
		if err := p.store.Write(ctx, txn, storage.AddOp, storage.Path{key}, v); err != nil {
			return false
		}
	}
	v, err := p.askOf(ctx, in, explainTimeout, func(q *topdown.Query) { q.WithTransaction(txn).WithBaseCache(nil) })
	return err == nil && v.allow
}

// candidates lists, for an input, what the gateway's keys of data say against
// it. What is least natural comes last: it is the first to be left out.
func candidates(data, in map[string]any) []candidate {
	name, _ := in["resource"].(string)
	tenant, _ := in["tenant"].(string)
	persona, _ := in["persona_id"].(string)
	if name == "" || tenant == "" {
		return nil
	}
	enabled := map[string]any{memberEnabled: true}
	var list []candidate
	add := func(where, text string, e edit) { list = append(list, candidate{where, e, text}) }
	flagOn := func(name string) candidate {
		return candidate{
			keyFlags,
			edit{Set: map[string]any{tenant: map[string]any{name: enabled}}},
			fmt.Sprintf("enable %q for the tenant %q in %s", name, tenant, keyFlags),
		}
	}
	for _, name := range namesIn(in, name) {
		if contains(data[keyGlobalDeny], name) {
			add(keyGlobalDeny, fmt.Sprintf("take %q out of %s", name, keyGlobalDeny), edit{Remove: []any{name}})
		}
		if contains(at(data, keyPersonaDeny, persona), name) {
			add(keyPersonaDeny, fmt.Sprintf("take %q out of %s of %q", name, keyPersonaDeny, persona), edit{Remove: map[string]any{persona: []any{name}}})
		}
		if at(data, keyFlags, tenant, name, memberEnabled) == false {
			list = append(list, flagOn(name))
		}
		for _, key := range []string{keyCatalog, keyTools} {
			if at(data, key, name, memberEnabled) != true {
				add(key, fmt.Sprintf("enable %q in %s", name, key), edit{Set: map[string]any{name: enabled}})
			}
		}
		list = append(list, restrictedValues(at(data, keyRestricted, tenant, name), in, tenant, name)...)
	}
	if persona != "" && at(data, keyPermissions, persona, memberCanAdd) != true {
		add(keyPermissions, fmt.Sprintf("let the persona %q add tools in %s", persona, keyPermissions),
			edit{Set: map[string]any{persona: map[string]any{memberCanAdd: true}}})
	}
	if at(data, keyFlags, tenant, name, memberEnabled) == nil {
		list = append(list, flagOn(name))
	}
	return list
}

// namesIn returns all names of what an input is about, name first.
func namesIn(in map[string]any, name string) []string {
	names := []string{name}
	all, _ := in[inputNames].([]string)
	for _, other := range all {
		if other != name {
			names = append(names, other)
		}
	}
	return names
}

// restrictedValues is the candidate that takes away what is said against the
// arguments of a call.
func restrictedValues(banned any, in map[string]any, tenant, name string) []candidate {
	rules, _ := banned.(map[string]any)
	args, _ := in[inputArgs].(map[string]any)
	replaced, _ := in[inputReplaced].([]string)
	out := map[string]any{}
	for _, arg := range slices.Sorted(maps.Keys(rules)) {
		list, _ := rules[arg].([]any)
		found := hits(list, args[arg])
		if slices.ContainsFunc(replaced, func(p string) bool {
			return strings.HasPrefix(p+"/", "/"+mcp.PointerToken(arg)+"/")
		}) {
			found = list // its value was not shown
		}
		if _, ok := args[arg]; ok && len(found) > 0 {
			out[arg] = found
		}
	}
	if len(out) == 0 {
		return nil
	}
	return []candidate{{
		keyRestricted,
		edit{Remove: map[string]any{tenant: map[string]any{name: out}}},
		fmt.Sprintf("take the values out of %s of the tenant %q for %q that the call has in %s", keyRestricted, tenant, name,
			strings.Join(slices.Sorted(maps.Keys(out)), ", ")),
	}}
}

// hits returns the elements of list that a value is, or that a list or object
// has in it.
func hits(list []any, v any) []any {
	inside := []any{v}
	switch v := v.(type) {
	case []any:
		inside = append(inside, v...)
	case map[string]any:
		inside = slices.AppendSeq(inside, maps.Values(v))
	}
	var out []any
	for _, e := range list {
		if slices.ContainsFunc(inside, func(x any) bool { return equal(e, x) }) {
			out = append(out, e)
		}
	}
	return out
}

// at returns what is in data below some names, nil if there is nothing.
func at(v any, path ...string) any {
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func contains(list any, name string) bool {
	l, _ := list.([]any)
	return slices.Contains(l, any(name))
}

// equal compares JSON values as a policy does: numbers by their value.
func equal(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, err := ast.InterfaceToValue(a)
	if err != nil {
		return false
	}
	y, err := ast.InterfaceToValue(b)
	return err == nil && x.Compare(y) == 0
}
