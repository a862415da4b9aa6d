package schema

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// explainer converts the library's errors into problems with fixes.
type explainer struct {
	nodes map[string]*node // the schema's nodes by pointer; nil where unknown
	value any              // the checked value
}

// problems returns the leaves of an error in a stable order.
func (e *explainer) problems(tree *jsonschema.ValidationError) []Problem {
	return arrange(e.leaves(tree))
}

// leaves collects the problems at and below an error.
func (e *explainer) leaves(err *jsonschema.ValidationError) []Problem {
	switch k := err.ErrorKind.(type) {
	case *kind.AnyOf:
		return e.nearestBranch(err)
	case *kind.OneOf:
		if k.Subschemas == nil {
			return e.nearestBranch(err)
		}
		return []Problem{e.at(err, 9, "fits several of the alternatives, of which it may fit one only",
			"send what only one of them describes")}
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		var problems []Problem
		for _, cause := range err.Causes {
			problems = append(problems, e.leaves(cause)...)
		}
		return problems
	}
	return e.leaf(err)
}

func (e *explainer) at(err *jsonschema.ValidationError, rank int, problem, fix string) Problem {
	return Problem{Pointer: pointerOf(err.InstanceLocation), Problem: problem, Fix: fix, rank: rank}
}

// nearestBranch explains a value that matches no alternative, by the alternative that
// is closest to it.
func (e *explainer) nearestBranch(err *jsonschema.ValidationError) []Problem {
	if wants, ok := onlyTypes(err); ok {
		return []Problem{e.typeProblem(err, wants)}
	}
	var best []Problem
	least := -1
	for _, branch := range err.Causes {
		problems := e.leaves(branch)
		if distance := e.distance(err, branch, problems); least < 0 || distance < least {
			best, least = problems, distance
		}
	}
	if best == nil {
		return []Problem{e.at(err, 9, "fits none of the alternatives", "")}
	}
	return best
}

// distance measures how far a value is from an alternative: the number of problems,
// and more where the alternative is for another type of value.
func (e *explainer) distance(err, branch *jsonschema.ValidationError, problems []Problem) int {
	distance := len(problems)
	var look func(cause *jsonschema.ValidationError)
	look = func(cause *jsonschema.ValidationError) {
		depth := len(cause.InstanceLocation) - len(err.InstanceLocation)
		switch k := cause.ErrorKind.(type) {
		case *kind.Type, *kind.FalseSchema:
			if depth == 0 {
				distance += 1000
			}
		case *kind.Const:
			if depth <= 1 {
				distance += 100
			}
		case *kind.Enum:
			if depth <= 1 && len(k.Want) == 1 {
				distance += 100
			}
		case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
			for _, c := range cause.Causes {
				look(c)
			}
		}
	}
	look(branch)
	return distance
}

// onlyTypes tells whether every alternative failed only because of the value's type,
// and returns the types that they accept.
func onlyTypes(err *jsonschema.ValidationError) (wants []string, ok bool) {
	for _, branch := range err.Causes {
		for len(branch.Causes) == 1 {
			if _, ref := branch.ErrorKind.(*kind.Reference); !ref {
				break
			}
			branch = branch.Causes[0]
		}
		k, isType := branch.ErrorKind.(*kind.Type)
		if !isType || len(branch.InstanceLocation) != len(err.InstanceLocation) {
			return nil, false
		}
		for _, want := range k.Want {
			if !slices.Contains(wants, want) {
				wants = append(wants, want)
			}
		}
	}
	return wants, len(wants) > 0
}

// leaf explains one error without relevant causes.
func (e *explainer) leaf(err *jsonschema.ValidationError) []Problem {
	switch k := err.ErrorKind.(type) {
	case *kind.Type:
		return []Problem{e.typeProblem(err, k.Want)}
	case *kind.Required:
		return e.missing(err, k.Missing, "")
	case *kind.Dependency:
		return e.missing(err, k.Missing, k.Prop)
	case *kind.DependentRequired:
		return e.missing(err, k.Missing, k.Prop)
	case *kind.AdditionalProperties:
		return e.unknown(err, k.Properties)
	case *kind.PropertyNames:
		return []Problem{e.at(err, 3, "the name "+quote(k.Property)+" is not allowed", "remove or rename it")}
	case *kind.Enum:
		return []Problem{e.enumProblem(err, k.Got, k.Want)}
	case *kind.Const:
		return []Problem{e.enumProblem(err, k.Got, []any{k.Want})}
	case *kind.FalseSchema:
		return []Problem{e.at(err, 3, "is not allowed here", "leave it out")}
	case *kind.Not:
		return []Problem{e.at(err, 9, "is one of the values that are not allowed", "send another value")}
	case *kind.Format:
		return []Problem{e.at(err, 5, "is not a valid "+clip(k.Want), "send a "+clip(k.Want))}
	case *kind.Pattern:
		return []Problem{e.at(err, 5, show(k.Got)+" does not match the pattern "+quote(k.Want), "send a text that matches it")}
	}
	return []Problem{e.bound(err)}
}

// bound explains an error about a limit.
func (e *explainer) bound(err *jsonschema.ValidationError) Problem {
	literal := func(keyword string) string { return e.literal(err, keyword) }
	got := show(e.valueAt(err.InstanceLocation))
	switch k := err.ErrorKind.(type) {
	case *kind.Minimum:
		return e.at(err, 5, got+" is too small", "send at least "+literal("minimum"))
	case *kind.Maximum:
		return e.at(err, 5, got+" is too large", "send at most "+literal("maximum"))
	case *kind.ExclusiveMinimum:
		return e.at(err, 5, got+" is too small", "send more than "+literal("exclusiveMinimum"))
	case *kind.ExclusiveMaximum:
		return e.at(err, 5, got+" is too large", "send less than "+literal("exclusiveMaximum"))
	case *kind.MultipleOf:
		return e.at(err, 5, got+" is not a multiple of "+literal("multipleOf"), "send one that is")
	case *kind.MinLength:
		return e.at(err, 5, amount("has", k.Got, "character"), "send at least "+strconv.Itoa(k.Want))
	case *kind.MaxLength:
		return e.at(err, 5, amount("has", k.Got, "character"), "send at most "+strconv.Itoa(k.Want))
	case *kind.MinItems:
		return e.at(err, 5, amount("has", k.Got, "element"), "send at least "+strconv.Itoa(k.Want))
	case *kind.MaxItems:
		return e.at(err, 5, amount("has", k.Got, "element"), "send at most "+strconv.Itoa(k.Want))
	case *kind.MinProperties:
		return e.at(err, 5, amount("has", k.Got, "member"), "send at least "+strconv.Itoa(k.Want))
	case *kind.MaxProperties:
		return e.at(err, 5, amount("has", k.Got, "member"), "send at most "+strconv.Itoa(k.Want))
	case *kind.AdditionalItems:
		return e.at(err, 5, amount("has", k.Count, "element")+" too many", "leave out the last "+strconv.Itoa(k.Count))
	case *kind.UniqueItems:
		return e.at(err, 5, fmt.Sprintf("the elements %d and %d are equal", k.Duplicates[0], k.Duplicates[1]), "send each only once")
	case *kind.Contains:
		return e.at(err, 5, "no element is of the kind that there must be", "add one")
	case *kind.MinContains:
		return e.at(err, 5, amount("only", len(k.Got), "element")+" of the kind that there must be", "send at least "+strconv.Itoa(k.Want))
	case *kind.MaxContains:
		return e.at(err, 5, amount("has", len(k.Got), "element")+" of a kind that is limited", "send at most "+strconv.Itoa(k.Want))
	}
	return e.at(err, 9, "does not fit the schema", "")
}

func amount(verb string, n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%s %d %s", verb, n, noun)
}

// node returns the subschema of an error, nil when it is unknown.
func (e *explainer) node(err *jsonschema.ValidationError) *node {
	_, fragment, _ := strings.Cut(err.SchemaURL, "#")
	pointer, failed := url.PathUnescape(fragment)
	if failed != nil {
		return nil
	}
	return e.nodes[pointer]
}

// literal returns the number under a keyword as written in the schema.
func (e *explainer) literal(err *jsonschema.ValidationError, keyword string) string {
	if n := e.node(err); n != nil {
		if number, ok := n.object[keyword].(json.Number); ok {
			return cut(string(number))
		}
		// Draft 4 has the limit under the other name.
		if plain, ok := strings.CutPrefix(keyword, "exclusive"); ok {
			if number, ok := n.object[strings.ToLower(plain)].(json.Number); ok {
				return cut(string(number))
			}
		}
	}
	return "what the schema says"
}

// valueAt returns the value at a path; nil when there is none.
func (e *explainer) valueAt(path []string) any {
	value := e.value
	for _, token := range path {
		switch container := value.(type) {
		case map[string]any:
			value = container[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(container) {
				return nil
			}
			value = container[i]
		default:
			return nil
		}
	}
	return value
}
