package opa

import (
	"errors"
	"maps"
	"slices"
	"strconv"
)

const (
	memberEnabled = "enabled"
	memberCanAdd  = "can_add_tools"
)

// maxFaults bounds the faults that one check reports.
const maxFaults = 20

// shape checks a value and reports what is wrong with it and where.
type shape func(v any, at string, fault func(at, what string))

// shapes are the shapes of the members of data that the gateway knows. A
// policy that denies by them never sees another, in which a rule would find
// nothing and so deny nothing.
var shapes = map[string]shape{
	keyCatalog:     byName("a tool", having(memberEnabled)),
	keyTools:       byName("a tool", having(memberEnabled)),
	keyFlags:       byName("a tenant", byName("a tool", having(memberEnabled))),
	keyPersonaDeny: byName("a persona", names),
	keyGlobalDeny:  names,
	keyPermissions: byName("a persona", having(memberCanAdd)),
	keyRestricted:  byName("a tenant", byName("a tool", byName("an argument", values))),
}

// checkShapes checks the members of data that have a shape. where tells which
// file a member is from, for a person.
func checkShapes(data map[string]any, where func(key string) string) error {
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		check := shapes[key]
		if check == nil {
			continue
		}
		file := where(key)
		check(data[key], key, func(at, what string) {
			fault := errors.New(at + " " + what)
			if file != "" {
				fault = &placed{file, 0, fault}
			}
			if len(faults) < maxFaults {
				faults = append(faults, fault)
			}
		})
	}
	return errors.Join(faults...)
}

// byName is the shape of an object that maps names of something to a shape.
func byName(of string, inner shape) shape {
	return func(v any, at string, fault func(at, what string)) {
		m, ok := v.(map[string]any)
		if !ok {
			fault(at, "is "+kindOf(v)+" and must be an object by the name of "+of)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if name == "" {
				fault(at, "has an empty name of "+of)
				continue
			}
			inner(m[name], at+"."+name, fault)
		}
	}
}

// having is the shape of an object with a boolean member, and any others.
func having(member string) shape {
	return func(v any, at string, fault func(at, what string)) {
		m, ok := v.(map[string]any)
		if !ok {
			fault(at, "is "+kindOf(v)+` and must be an object {"`+member+`": true or false}`)
			return
		}
		if _, ok := m[member].(bool); !ok {
			fault(at+"."+member, "is "+kindOf(m[member])+" and must be true or false")
		}
	}
}

// names is the shape of a list of names.
func names(v any, at string, fault func(at, what string)) {
	list, ok := v.([]any)
	if !ok {
		fault(at, "is "+kindOf(v)+" and must be a list of names")
		return
	}
	for i, e := range list {
		if s, ok := e.(string); !ok || s == "" {
			fault(at+"["+strconv.Itoa(i)+"]", "is "+kindOf(e)+" and must be a name that is not empty")
		}
	}
}

// values is the shape of a list of JSON values.
func values(v any, at string, fault func(at, what string)) {
	if _, ok := v.([]any); !ok {
		fault(at, "is "+kindOf(v)+" and must be a list of values")
	}
}
