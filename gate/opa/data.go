package opa

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The members of data that have a shape which is enforced, wherever they come
// from.
const (
	keyCatalog     = "tool_catalog"
	keyTools       = "tools"
	keyFlags       = "tenant_tool_flags"
	keyPersonaDeny = "persona_tool_deny"
	keyGlobalDeny  = "global_tool_deny"
	keyPermissions = "persona_permissions"
	keyRestricted  = "tenant_restricted_args"
)

// KeyHash is the hash by which the engine finds a key in an object, such as the name
// of a tool in the catalog. It has no secret, and the engine looks through all keys that
// have the same: whoever lets others choose keys has to bound how many are alike.
func KeyHash(key string) int { return ast.String(key).Hash() }

// Data is the gateway's part of what policies see as data. A nil member is not
// given. A key that the policy's own data files have, too, is merged: the stricter
// statement wins. One that neither has is empty. Names are those that clients know.
//
// A Data is not changed once it was given to a [Phase].
type Data struct {
	ToolCatalog        map[string]Tool            // data.tool_catalog[name]
	Tools              map[string]Tool            // data.tools[name]: the same under its other usual name
	TenantToolFlags    map[string]map[string]Flag // data.tenant_tool_flags[tenant][name]
	PersonaToolDeny    map[string][]string        // data.persona_tool_deny[persona]: names
	GlobalToolDeny     []string                   // data.global_tool_deny: names
	PersonaPermissions map[string]Permissions     // data.persona_permissions[persona]
	// data.tenant_restricted_args[tenant][name][argument]: values that the
	// argument must not have, each any JSON value
	TenantRestrictedArgs map[string]map[string]map[string][]any
}

// Tool is an entry of the catalog: {"enabled": true, ...}.
type Tool struct {
	Enabled bool
	// Attributes are the other members, JSON values as encoding/json decodes
	// them, preferably with json.Number. A member "enabled" is ignored.
	Attributes map[string]any
}

// Flag is what a tenant says of a tool: {"enabled": true}.
type Flag struct{ Enabled bool }

// Permissions are what a persona may do: {"can_add_tools": true}.
type Permissions struct{ CanAddTools bool }

// members returns the data as policies see it, without the keys that are not
// given. It shares nothing that is ever changed.
func (d Data) members() map[string]any {
	m := map[string]any{}
	put(m, keyCatalog, d.ToolCatalog, Tool.member)
	put(m, keyTools, d.Tools, Tool.member)
	put(m, keyFlags, d.TenantToolFlags, func(flags map[string]Flag) any {
		of := map[string]any{}
		for name, f := range flags {
			of[name] = map[string]any{memberEnabled: f.Enabled}
		}
		return of
	})
	put(m, keyPersonaDeny, d.PersonaToolDeny, func(names []string) any { return anys(names) })
	if d.GlobalToolDeny != nil {
		m[keyGlobalDeny] = anys(d.GlobalToolDeny)
	}
	put(m, keyPermissions, d.PersonaPermissions, func(p Permissions) any {
		return map[string]any{memberCanAdd: p.CanAddTools}
	})
	put(m, keyRestricted, d.TenantRestrictedArgs, func(tools map[string]map[string][]any) any {
		of := map[string]any{}
		for name, args := range tools {
			banned := map[string]any{}
			for arg, values := range args {
				banned[arg] = slices.Clone(values)
			}
			of[name] = banned
		}
		return of
	})
	return m
}

func (t Tool) member() any {
	m := make(map[string]any, len(t.Attributes)+1)
	maps.Copy(m, t.Attributes)
	m[memberEnabled] = t.Enabled
	return m
}

func put[V any](m map[string]any, key string, from map[string]V, member func(V) any) {
	if from == nil {
		return
	}
	to := make(map[string]any, len(from))
	for k, v := range from {
		to[k] = member(v)
	}
	m[key] = to
}

func anys(names []string) []any {
	list := make([]any, len(names))
	for i, n := range names {
		list[i] = n
	}
	return list
}

// dataOf is the inverse of members, for what checkShapes accepts.
func dataOf(m map[string]any) Data {
	var d Data
	d.ToolCatalog = take(m, keyCatalog, toolOf)
	d.Tools = take(m, keyTools, toolOf)
	d.TenantToolFlags = take(m, keyFlags, func(v any) map[string]Flag {
		return each(v, func(v any) Flag { return Flag{v.(map[string]any)[memberEnabled].(bool)} })
	})
	d.PersonaToolDeny = take(m, keyPersonaDeny, namesOf)
	if v, ok := m[keyGlobalDeny]; ok {
		d.GlobalToolDeny = namesOf(v)
	}
	d.PersonaPermissions = take(m, keyPermissions, func(v any) Permissions {
		return Permissions{v.(map[string]any)[memberCanAdd].(bool)}
	})
	d.TenantRestrictedArgs = take(m, keyRestricted, func(v any) map[string]map[string][]any {
		return each(v, func(v any) map[string][]any {
			return each(v, func(v any) []any { return v.([]any) })
		})
	})
	return d
}

func toolOf(v any) Tool {
	m := maps.Clone(v.(map[string]any))
	t := Tool{Enabled: m[memberEnabled].(bool)}
	if delete(m, memberEnabled); len(m) > 0 {
		t.Attributes = m
	}
	return t
}

func namesOf(v any) []string {
	list := make([]string, 0, len(v.([]any)))
	for _, e := range v.([]any) {
		list = append(list, e.(string))
	}
	return list
}

func take[V any](m map[string]any, key string, member func(any) V) map[string]V {
	v, ok := m[key]
	if !ok {
		return nil
	}
	return each(v, member)
}

func each[V any](v any, member func(any) V) map[string]V {
	from := v.(map[string]any)
	to := make(map[string]V, len(from))
	for k, e := range from {
		to[k] = member(e)
	}
	return to
}

// gatewayData is a [Data] in the form in which policies see it. It is not
// changed once made.
type gatewayData struct {
	members   map[string]any // JSON values, with json.Number
	canonical string         // the same as JSON; equal for equal data
}

// normal checks the data and brings them into the form for policies.
func (d Data) normal() (gatewayData, error) {
	raw, err := json.Marshal(d.members())
	if err != nil {
		return gatewayData{}, fmt.Errorf("data: encode: %w", err)
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return gatewayData{}, fmt.Errorf("data: %w", err)
	}
	m := v.(map[string]any)
	if err := checkShapes(m, func(string) string { return "" }); err != nil {
		return gatewayData{}, fmt.Errorf("data: %w", err)
	}
	return gatewayData{members: m, canonical: string(raw)}, nil
}
