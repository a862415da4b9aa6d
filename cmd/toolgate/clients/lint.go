package clients

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// Shown returns a tool's name as a client shows it, with its prefix.
func (c *Client) Shown(name string) string {
	return strings.ReplaceAll(c.Limits.Prefix, "NAME", Entry) + name
}

// Tool is a tool as it is listed.
type Tool struct {
	Name        string
	Description string
	Schema      []byte // schema of its arguments, as JSON
}

// The rules of [Client.Lint]. Their meaning never changes.
const (
	RuleTools       = "tools"           // more tools than the client accepts
	RuleTokens      = "tokens"          // tools that cost a model much, all of which the client shows it
	RuleName        = "name-length"     // a name that is too long
	RuleChars       = "name-characters" // a name with characters that the client does not accept
	RuleCollision   = "name-collision"  // two names that become one
	RuleDescription = "description"     // a description that is too long
	RuleSchema      = "schema-size"     // a schema that is too large
	RuleRoot        = "schema-root"     // a schema whose root is not a plain object
	RuleTypeList    = "type-list"       // an argument of several types
)

// Problem is something that a client does not accept as it is.
type Problem struct {
	Client string `json:"client"`
	Rule   string `json:"rule"`
	Tool   string `json:"tool,omitempty"` // empty if it is about all of them
	What   string `json:"what"`
	Fix    string `json:"fix"`
}

// maxProblems bounds the problems reported for one client.
const maxProblems = 1000

// Lint checks the tools of a gateway against a client's limits. It returns at most
// maxProblems.
func (c *Client) Lint(tools []Tool) []Problem {
	var out []Problem
	add := func(rule, tool, what, fix string) {
		if len(out) < maxProblems {
			out = append(out, Problem{c.Name, rule, tool, c.Title + " " + what, fix})
		}
	}
	l := &c.Limits
	if l.Tools > 0 && len(tools) > l.Tools {
		add(RuleTools, "", fmt.Sprintf("accepts %d tools, and there are %d", l.Tools, len(tools)), "Connect it with --view find, or show it fewer: connect it with --http --capsule, or hide tools.")
	} else if view, why := c.View(len(tools), tokensOf(tools)); view == FindView {
		add(RuleTokens, "", strings.TrimPrefix(why, c.Title+" "), "Connect it with --view find, or show it fewer: connect it with --http --capsule, or hide tools.")
	}
	var allowed *regexp.Regexp
	if l.Chars != "" {
		allowed = regexp.MustCompile("[^" + l.Chars + "]")
	}
	seen := map[string]string{}
	for i := range tools {
		t := &tools[i]
		shown := c.Shown(t.Name)
		if l.Name > 0 && len(shown) > l.Name {
			add(RuleName, t.Name, fmt.Sprintf("accepts names of %d characters with its prefix, and this one has %d: it %s", l.Name, len(shown), l.Over),
				"Shorten it: toolgate.servers.NAME.tools.TOOL.rename, or a shorter namespace.")
		}
		if allowed != nil && allowed.MatchString(t.Name) {
			add(RuleChars, t.Name, fmt.Sprintf("accepts only %s in names", l.Chars), "Rename it: toolgate.servers.NAME.tools.TOOL.rename.")
		}
		if other, twice := seen[c.becomes(shown)]; twice {
			add(RuleCollision, t.Name, fmt.Sprintf("turns its name into the same name as that of %s", other), "Rename one of them: toolgate.servers.NAME.tools.TOOL.rename.")
		}
		seen[c.becomes(shown)] = t.Name
		if l.Description > 0 && len(t.Description) > l.Description {
			add(RuleDescription, t.Name, fmt.Sprintf("shows %d bytes of a description, and this one has %d", l.Description, len(t.Description)),
				"Write a shorter one: toolgate.servers.NAME.tools.TOOL.description.")
		}
		if l.Schema > 0 && len(t.Schema) > l.Schema {
			add(RuleSchema, t.Name, fmt.Sprintf("shortens schemas of more than %d bytes, and this one has %d", l.Schema, len(t.Schema)),
				"Fix or hide arguments: toolgate.servers.NAME.tools.TOOL.args.")
		}
		if rule, what, fix := l.unfit(t.Schema); rule != "" {
			add(rule, t.Name, what, fix)
		}
	}
	return out
}

// tokensOf is about how many tokens tools cost a model.
func tokensOf(tools []Tool) int {
	size := 0
	for i := range tools {
		size += len(tools[i].Name) + len(tools[i].Description) + len(tools[i].Schema)
	}
	return schemas.Tokens(size)
}

// becomes returns the form that a client gives a name, as far as it may make two names
// equal.
func (c *Client) becomes(shown string) string {
	switch c.Name {
	case "codex":
		return regexp.MustCompile("[^A-Za-z0-9_]").ReplaceAllString(shown, "_")
	case "gemini":
		if len(shown) > c.Limits.Name { // the first 28 and the last 32 characters, with ___ between
			return shown[:28] + "___" + shown[len(shown)-32:]
		}
	}
	return shown
}

func plainRoot(schema []byte) bool {
	if len(schema) == 0 {
		return true
	}
	kind, _ := mcp.LookupString(schema, "type")
	return kind == "object" && !slices.ContainsFunc([]string{"anyOf", "oneOf", "allOf"}, func(key string) bool { return mcp.Lookup(schema, key) != nil })
}

// severalTypes returns the first argument whose type is a list.
func severalTypes(schema []byte) string {
	properties := mcp.Lookup(schema, "properties")
	if !mcp.IsObject(properties) {
		return ""
	}
	for m := range mcp.Members(properties) {
		if kind := mcp.Lookup(m.Value.Of(properties), "type"); len(kind) > 0 && kind[0] == '[' {
			name, err := mcp.Unquote([]byte(`"` + string(m.KeyText.Of(properties)) + `"`))
			if err != nil {
				return "one"
			}
			return name
		}
	}
	return ""
}
