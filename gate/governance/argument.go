package governance

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/toolgate/toolgate/internal/mcp"
)

// leaf is a string, number or boolean among the arguments.
type leaf struct {
	pointer string
	text    string
	str     bool
}

// found is a command among the arguments: one string with a command line, or an array
// of strings.
type found struct {
	pointer string
	argv    []string
	line    bool
}

// at calls yield with every value that a pointer leads to.
func (p pointer) at(value any, yield func(place string, value any)) {
	var walk func(tokens []string, value any, place string)
	walk = func(tokens []string, value any, place string) {
		if len(tokens) == 0 {
			yield(place, value)
			return
		}
		switch value := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				if tokens[0] == "*" || tokens[0] == key {
					walk(tokens[1:], value[key], place+"/"+mcp.PointerToken(key))
				}
			}
		case []any:
			for i, element := range value {
				if index := strconv.Itoa(i); tokens[0] == "*" || tokens[0] == index {
					walk(tokens[1:], element, place+"/"+index)
				}
			}
		}
	}
	walk(p.tokens, value, "")
}

// leavesIn returns the leaves at and below pointers.
func leavesIn(pointers []pointer, args any) []leaf {
	var leaves []leaf
	for _, p := range pointers {
		p.at(args, func(place string, value any) { leaves = leavesOf(leaves, value, place) })
	}
	return leaves
}

// leavesOf appends the leaves of a value.
func leavesOf(leaves []leaf, value any, place string) []leaf {
	switch value := value.(type) {
	case string:
		return append(leaves, leaf{place, value, true})
	case json.Number:
		return append(leaves, leaf{place, string(value), false})
	case bool:
		return append(leaves, leaf{place, strconv.FormatBool(value), false})
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			leaves = leavesOf(leaves, value[key], place+"/"+mcp.PointerToken(key))
		}
	case []any:
		for i, element := range value {
			leaves = leavesOf(leaves, element, place+"/"+strconv.Itoa(i))
		}
	}
	return leaves
}

// commandsIn returns the commands at pointers.
func commandsIn(pointers []pointer, args any) []found {
	var all []found
	for _, p := range pointers {
		p.at(args, func(place string, value any) {
			switch value := value.(type) {
			case string:
				all = append(all, found{place, []string{value}, true})
			case []any:
				if argv, ok := strs(value); ok {
					all = append(all, found{place, argv, false})
					return
				}
				for _, l := range leavesOf(nil, value, place) {
					all = append(all, found{l.pointer, []string{l.text}, true})
				}
			default:
				for _, l := range leavesOf(nil, value, place) {
					all = append(all, found{l.pointer, []string{l.text}, true})
				}
			}
		})
	}
	return all
}

// strs returns the elements of an array of strings.
func strs(array []any) (all []string, ok bool) {
	for _, element := range array {
		s, ok := element.(string)
		if !ok {
			return nil, false
		}
		all = append(all, s)
	}
	return all, true
}

// cut shortens text that a reason quotes.
func cut(text string) string {
	const most = 100
	n := 0
	for i := range text {
		if n == most {
			return text[:i] + "…"
		}
		n++
	}
	return text
}
