package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// shownValues is how many allowed values or names one problem lists.
const shownValues = 12

// typeProblem explains a value of the wrong type. Where it can, it shows the same
// value in the right type.
func (e *explainer) typeProblem(err *jsonschema.ValidationError, wants []string) Problem {
	value := e.valueAt(err.InstanceLocation)
	names := make([]string, len(wants))
	for i, want := range wants {
		names[i] = article(want)
	}
	wanted := join(names, " or ")
	problem := "is " + article(typeOf(value)) + " and must be " + wanted
	if n, ok := value.(json.Number); ok && slices.Contains(wants, "integer") {
		problem = cut(string(n)) + " is not an integer"
		wanted = "a whole number"
	}
	if better := convert(value, wants); better != "" {
		return e.at(err, 1, problem, better)
	}
	if value == nil && len(err.InstanceLocation) > 0 {
		return e.at(err, 1, problem, "send "+wanted+", or leave it out if it is optional")
	}
	return e.at(err, 1, problem, "send "+wanted)
}

// convert returns how to write a value in one of the wanted types; empty when that is
// not obvious.
func convert(value any, wants []string) string {
	switch value := value.(type) {
	case string:
		inner := parsed(value)
		name := typeOf(inner)
		if inner == nil || name == "string" || !fits(inner, wants) {
			break
		}
		if name == "object" || name == "array" {
			return "send the " + name + " itself, not a string with it"
		}
		return "send " + show(inner) + ", not " + quote(value)
	case json.Number, bool:
		if slices.Contains(wants, "string") {
			return `send "` + show(value) + `", not ` + show(value)
		}
	}
	if value != nil && slices.Contains(wants, "array") {
		switch value.(type) {
		case string, json.Number, bool:
			return "send [" + show(value) + "], an array, even for one"
		}
	}
	return ""
}

// fits tells whether a value has one of the types.
func fits(value any, wants []string) bool {
	name := typeOf(value)
	if n, ok := value.(json.Number); ok && slices.Contains(wants, "integer") {
		return !strings.ContainsAny(string(n), ".eE") || slices.Contains(wants, "number")
	}
	return slices.Contains(wants, name)
}

// missing explains missing members. because is the member that requires them; empty
// when they are always required.
func (e *explainer) missing(err *jsonschema.ValidationError, names []string, because string) []Problem {
	n := e.node(err)
	var problems []Problem
	for _, name := range names {
		fix := "add " + quote(name)
		if kinds := n.typesOf(name); kinds != "" {
			fix += " (" + kinds + ")"
		}
		problem := quote(name) + " is missing"
		if because != "" {
			problem += ", which " + quote(because) + " needs"
		}
		problems = append(problems, e.at(err, 2, problem, fix))
	}
	return problems
}

// typesOf describes the accepted values of a property.
func (n *node) typesOf(name string) string {
	if n == nil || n.properties[name] == nil {
		return ""
	}
	object := n.properties[name].object
	if enum, ok := object["enum"].([]any); ok {
		return "one of " + listValues(enum)
	}
	switch types := object["type"].(type) {
	case string:
		return clip(types)
	case []any:
		var names []string
		for _, t := range types {
			if s, ok := t.(string); ok {
				names = append(names, clip(s))
			}
		}
		return join(names, " or ")
	}
	return ""
}

// unknown explains members that the schema does not know.
func (e *explainer) unknown(err *jsonschema.ValidationError, names []string) []Problem {
	present, _ := e.valueAt(err.InstanceLocation).(map[string]any)
	var known, free []string
	if n := e.node(err); n != nil {
		known = slices.Sorted(maps.Keys(n.properties))
		for _, name := range known {
			if _, ok := present[name]; !ok {
				free = append(free, name)
			}
		}
	}
	var problems []Problem
	for _, name := range names {
		fix := "remove it"
		if near := nearest(name, free); near != "" {
			fix = "remove it, or did you mean " + quote(near) + "?"
		} else if len(known) > 0 {
			fix += "; known are " + join(quoteAll(known), ", ")
		}
		problems = append(problems, e.at(err, 3, quote(name)+" is not known", fix))
	}
	return problems
}

// enumProblem explains a value that is not among the allowed ones.
func (e *explainer) enumProblem(err *jsonschema.ValidationError, got any, allowed []any) Problem {
	fix := "send " + listValues(allowed)
	if len(allowed) > 1 {
		fix = "send one of " + listValues(allowed)
	}
	if text, ok := got.(string); ok {
		var texts []string
		for _, v := range allowed {
			if s, ok := v.(string); ok {
				texts = append(texts, s)
			}
		}
		if near := nearest(text, texts); near != "" && len(allowed) > 1 {
			fix = "did you mean " + quote(near) + "? " + strings.ToUpper(fix[:1]) + fix[1:]
		}
	}
	if slices.ContainsFunc(allowed, func(v any) bool { return typeOf(v) != typeOf(got) && show(v) == strings.Trim(show(got), `"`) }) {
		fix = "send " + strings.Trim(show(got), `"`) + ", not " + show(got)
	}
	return e.at(err, 4, show(got)+" is not allowed", fix)
}

func listValues(values []any) string {
	shown := make([]string, len(values))
	for i, v := range values {
		if shown[i] = show(v); i >= shownValues {
			break
		}
	}
	return join(shown, ", ")
}

func quoteAll(texts []string) []string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quote(text)
	}
	return quoted
}

// join joins texts and omits those beyond the limit.
func join(texts []string, separator string) string {
	if len(texts) <= shownValues {
		return strings.Join(texts, separator)
	}
	return strings.Join(texts[:shownValues], separator) + separator + "and others"
}
