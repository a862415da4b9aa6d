package findview

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/spelling"
)

// Limits of the arguments.
const (
	maxQuery = 4 << 10 // bytes of a query
	maxNames = 20      // names of one description
	maxName  = 256     // bytes of a name
	maxLimit = 50
)

// Query is what [FindTools] is asked.
type Query struct {
	Text   string
	Server string   // only of this server; empty for all
	Kind   mcp.Kind // what to find
	Limit  int      // of what is found
	Detail Detail
}

// Detail is how much an answer says of each tool.
type Detail string

// The details.
const (
	Fitting    Detail = ""           // schemas for the best and signatures for the rest, as far as they fit
	Names      Detail = "names"      // no arguments
	Signatures Detail = "signatures" // no schemas
	Schemas    Detail = "schemas"    // schemas for all, as far as they fit
)

// ParseQuery reads the arguments of [FindTools], a JSON object or nil. The error is a
// sentence for the caller, with which the call can be repaired.
func ParseQuery(args []byte) (Query, error) {
	q := Query{Kind: mcp.Tool, Limit: DefaultLimit}
	if err := onlyMembers(FindTools, args, "query", "limit", "server", "kind", "detail"); err != nil {
		return q, err
	}
	var ok bool
	if q.Text, ok = mcp.LookupString(args, "query"); !ok || strings.TrimSpace(q.Text) == "" {
		return q, errors.New(`"query" must say in words what you want to do, such as {"query":"list the open issues"}`)
	}
	if len(q.Text) > maxQuery {
		return q, fmt.Errorf("the query has %d bytes, and at most %d are read; say what you want to do in a sentence", len(q.Text), maxQuery)
	}
	if raw := given(args, "server"); raw != nil {
		if q.Server, ok = mcp.LookupString(args, "server"); !ok || len(q.Server) > maxName {
			return q, errors.New(`"server" must be the name of a server`)
		}
	}
	if raw := given(args, "kind"); raw != nil {
		word, _ := mcp.LookupString(args, "kind")
		if q.Kind, ok = kinds[word]; !ok {
			return q, errors.New(`"kind" must be "tool", "prompt", "resource" or "template"`)
		}
	}
	if raw := given(args, "limit"); raw != nil {
		n, err := strconv.Atoi(string(raw))
		if err != nil || n < 1 || n > maxLimit {
			return q, fmt.Errorf(`"limit" must be a whole number from 1 to %d`, maxLimit)
		}
		q.Limit = n
	}
	if raw := given(args, "detail"); raw != nil {
		word, _ := mcp.LookupString(args, "detail")
		switch q.Detail = Detail(word); q.Detail {
		case Names, Signatures, Schemas:
		default:
			return q, errors.New(`"detail" must be "names", "signatures" or "schemas"`)
		}
	}
	return q, nil
}

var kinds = map[string]mcp.Kind{"tool": mcp.Tool, "prompt": mcp.Prompt, "resource": mcp.Resource, "template": mcp.Template}

// ParseNames reads the arguments of [DescribeTools], a JSON object or nil. The error is
// a sentence for the caller.
func ParseNames(args []byte) ([]string, error) {
	if err := onlyMembers(DescribeTools, args, "names"); err != nil {
		return nil, err
	}
	raw := mcp.Lookup(args, "names")
	if text, ok := mcp.LookupString(args, "names"); ok && len(text) <= maxName { // one name is what models write, too
		return []string{text}, nil
	}
	if !mcp.IsArray(raw) {
		return nil, errors.New(`"names" must be a list of names, such as {"names":["github__list_issues"]}`)
	}
	var names []string
	for e := range mcp.Elements(raw) {
		name, err := mcp.Unquote(e.Of(raw))
		if err != nil || len(name) > maxName {
			return nil, errors.New(`each of "names" must be a name`)
		}
		if names = append(names, name); len(names) > maxNames {
			return nil, fmt.Errorf("at most %d tools are described at once", maxNames)
		}
	}
	if len(names) == 0 {
		return nil, errors.New(`"names" is empty`)
	}
	return names, nil
}

// Call is what a tool is called with through the view.
type Call struct {
	Name      string
	Arguments []byte // a JSON object
}

// ParseCall reads the arguments of one of the tools that call, a JSON object or nil. The
// error is a sentence for the caller.
func ParseCall(via string, args []byte, limits mcp.Limits) (Call, error) {
	name, ok := mcp.LookupString(args, "name")
	if !ok || name == "" || len(name) > maxName {
		return Call{}, fmt.Errorf(`"name" must be the name of a tool, as %s returns it, and "arguments" its arguments`, FindTools)
	}
	if err := onlyMembers(via, args, "name", "arguments"); err != nil {
		return Call{}, fmt.Errorf(`%w; the arguments of %s belong into "arguments"`, err, name)
	}
	if Has(name) {
		return Call{}, fmt.Errorf("%s is called by itself, not by %s", name, via)
	}
	c := Call{Name: name, Arguments: given(args, "arguments")}
	switch {
	case c.Arguments == nil:
		c.Arguments = []byte("{}")
	case mcp.IsObject(c.Arguments):
	default:
		// Some models write the object as a string.
		text, err := mcp.Unquote(c.Arguments)
		if err != nil || mcp.Validate([]byte(text), limits) != nil || !mcp.IsObject([]byte(text)) {
			return Call{}, errors.New(`"arguments" must be an object`)
		}
		c.Arguments = []byte(text)
	}
	return c, nil
}

// given returns a member that is there and not null, else nil.
func given(args []byte, name string) []byte {
	if raw := mcp.Lookup(args, name); raw != nil && string(raw) != "null" {
		return raw
	}
	return nil
}

// onlyMembers refuses arguments that a tool does not have.
func onlyMembers(tool string, args []byte, known ...string) error {
	for m := range mcp.Members(args) {
		key, err := mcp.Unquote(m.Key(args))
		if err != nil {
			return err
		}
		if slices.Contains(known, key) {
			continue
		}
		if len(key) > maxName {
			key = strings.ToValidUTF8(key[:maxName], "") + "..."
		}
		if i := slices.IndexFunc(known, func(k string) bool { return spelling.Misspelt(key, k) }); i >= 0 {
			return fmt.Errorf("%s has no argument %q; did you mean %q?", tool, key, known[i])
		}
		return fmt.Errorf("%s has no argument %q", tool, key)
	}
	return nil
}
