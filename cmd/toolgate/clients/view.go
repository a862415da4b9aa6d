package clients

import (
	"fmt"

	"github.com/toolgate/toolgate/proxy/schemas"
)

// The views of the gateway's list of tools.
const (
	FullView = "full" // all tools
	FindView = "find" // the tools by which a model finds the others
)

// mostTokens is about how many tokens a list may cost a model whose client shows all of it:
// a tenth of a window of 200,000 tokens, which is from where Claude Code searches.
const mostTokens = 20_000

// View returns the view that fits a client, and why, for people. tools and tokens are what
// the gateway lists; 0 tools are not known.
func (c *Client) View(tools, tokens int) (view, why string) {
	l := &c.Limits
	switch {
	case l.Searches != "":
		return FullView, fmt.Sprintf("%s %s", c.Title, l.Searches)
	case tools == 0:
		return FullView, "how many tools there are is not known while no gateway runs"
	case l.Tools > 0 && tools > l.Tools:
		return FindView, fmt.Sprintf("%s accepts %d tools, and there are %d", c.Title, l.Tools, tools)
	case tokens > mostTokens:
		return FindView, fmt.Sprintf("%s shows its model all tools at once, and these %d cost about %d tokens", c.Title, tools, tokens)
	}
	return FullView, fmt.Sprintf("%s shows its model all tools at once, and these %d cost about %d tokens", c.Title, tools, tokens)
}

// WithSchemas returns a view with the schemas that fit the client, and why.
func (c *Client) WithSchemas(view, why string) (with, reason string) {
	refuses := c.Title + " refuses a part of JSON Schema"
	switch {
	case !c.Limits.ObjectRoot && !c.Limits.TypeLists:
		return view, why
	case view == FullView:
		return string(schemas.StrictMode), refuses
	}
	return string(schemas.StrictMode) + "/" + view, why + "; and " + refuses
}

// unfit tells what of a schema a client refuses: the rule, what the client does, and how
// to fix it. The rule is empty if it accepts the schema.
func (l *Limits) unfit(schema []byte) (rule, what, fix string) {
	argument := severalTypes(schema)
	switch {
	case l.ObjectRoot && !plainRoot(schema):
		rule, what = RuleRoot, "leaves out the whole server because the root of this schema is not a plain object"
	case l.TypeLists && argument != "":
		rule, what = RuleTypeList, fmt.Sprintf("accepts one type for an argument, and %s has a list", argument)
	default:
		return "", "", ""
	}
	if why := schemas.Strict(schema).Why; why != "" {
		return rule, what, "Hide the tool from it, or have its server changed; the strict mode of schemas cannot help: " + why + "."
	}
	return rule, what, "Use the strict mode of schemas: connect it to /mcp/strict, or set toolgate.schemas."
}
