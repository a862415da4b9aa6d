package toolapi

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Fields are the arguments that a tool has, by name: pointers to what they are read
// into, a *string, *bool, *int or *int64.
type Fields map[string]any

// Read reads the arguments of a call by their exact names. What is not there is
// left as it is. An argument that the tool does not have, or that is of another
// kind, is a [Problem]: the gateway holds arguments against the schema before, and
// this is for whoever calls a plugin without it.
func Read(arguments []byte, fields Fields) error {
	if len(arguments) == 0 {
		return nil
	}
	if err := mcp.Validate(arguments, mcp.Limits{}); err != nil || !mcp.IsObject(arguments) {
		return Problemf("The arguments are not a JSON object.")
	}
	for m := range mcp.Members(arguments) {
		name, err := mcp.Unquote(m.Key(arguments))
		if err != nil {
			return Problemf("The arguments are not a JSON object.")
		}
		into, ok := fields[name]
		if !ok {
			return Problemf("There is no argument %q; there are %s.", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if want := assign(into, m.Value.Of(arguments)); want != "" {
			return Problemf("The argument %s is not %s.", name, want)
		}
	}
	return nil
}

// assign reads a value, and says what is needed where it is something else.
func assign(into any, raw []byte) (want string) {
	var err error
	switch into := into.(type) {
	case *string:
		*into, err = mcp.Unquote(raw)
		want = "a text"
	case *bool:
		*into, err = strconv.ParseBool(string(raw))
		if len(raw) < len("true") {
			return "true or false"
		}
		want = "true or false"
	case *int:
		*into, err = strconv.Atoi(string(raw))
		want = "a whole number"
	case *int64:
		*into, err = strconv.ParseInt(string(raw), 10, 64)
		want = "a whole number"
	default:
		return "of a kind that this tool can read"
	}
	if err != nil {
		return want
	}
	return ""
}
