// Package findview is the find view: a list of five tools in place of a whole catalog. A
// model finds what it needs with two of them, and calls it with one of the other three.
//
// The package holds what clients see of the view: the definitions of the five tools,
// their arguments, and the form of their answers. It knows no gateway. It starts no
// goroutines and keeps no state.
package findview

import (
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
)

// The names of the tools.
const (
	FindTools       = "toolgate__find_tools"
	DescribeTools   = "toolgate__describe_tools"
	CallRead        = "toolgate__call_read"
	CallWrite       = "toolgate__call_write"
	CallDestructive = "toolgate__call_destructive"
)

// Tool is one tool of the view.
type Tool struct {
	Name string
	Raw  []byte // its definition, as 2025-11-25 lists it
}

const callSchema = `"inputSchema":{"type":"object","properties":{` +
	`"name":{"type":"string","description":"Name of the tool, as found."},` +
	`"arguments":{"type":"object","description":"Arguments of the tool, as its signature or schema says."}},` +
	`"required":["name","arguments"],"additionalProperties":false},"execution":{"taskSupport":"optional"}`

// tools are the tools in the order of the list. Their annotations are true of everything
// that can be called by them, so that the rules of a client for approval keep their
// meaning.
var tools = []Tool{
	{FindTools, []byte(`{"name":"` + FindTools + `","title":"Find tools",` +
		`"description":"Finds the tools for a task. Say what you want to do, in one sentence or several steps. ` +
		`Each tool found has a signature or a schema, and says in \"call\" which tool calls it.",` +
		`"inputSchema":{"type":"object","properties":{` +
		`"query":{"type":"string","description":"What you want to do, such as: close the stale pull requests and tell the team"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":50,"description":"How many tools at most. Default: 8."},` +
		`"server":{"type":"string","description":"Only tools of this server."},` +
		`"kind":{"type":"string","enum":["tool","prompt","resource","template"],"description":"What to find. Default: tool."},` +
		`"detail":{"type":"string","enum":["names","signatures","schemas"],"description":"How much to say of each. Default: what fits."}},` +
		`"required":["query"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`)},
	{DescribeTools, []byte(`{"name":"` + DescribeTools + `","title":"Describe tools",` +
		`"description":"Returns the whole definitions of tools by their names.",` +
		`"inputSchema":{"type":"object","properties":{` +
		`"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":20,"description":"Names of tools, as found."}},` +
		`"required":["names"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`)},
	{CallRead, []byte(`{"name":"` + CallRead + `","title":"Call a tool that reads",` +
		`"description":"Calls a tool that changes nothing.",` + callSchema + `,"annotations":{"readOnlyHint":true,"openWorldHint":true}}`)},
	{CallWrite, []byte(`{"name":"` + CallWrite + `","title":"Call a tool that writes",` +
		`"description":"Calls a tool that adds or changes something and destroys nothing.",` + callSchema +
		`,"annotations":{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":true}}`)},
	{CallDestructive, []byte(`{"name":"` + CallDestructive + `","title":"Call a tool that may destroy",` +
		`"description":"Calls a tool that may delete or overwrite something, or does not say what it does.",` + callSchema +
		`,"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true}}`)},
}

// Tools returns the tools of the view in the order of its list. They must not be
// modified.
func Tools() []Tool { return tools }

// Has reports whether a name is one of the view's tools.
func Has(name string) bool {
	return slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name })
}

// CallOf returns the tool of the view that calls a tool, by the annotations of its
// definition as clients see it. Their defaults are those of the protocol: a tool that
// says nothing may destroy (2026-07-28 schema, ToolAnnotations).
func CallOf(definition []byte) string {
	annotations := mcp.Lookup(definition, "annotations")
	switch {
	case string(mcp.Lookup(annotations, "readOnlyHint")) == "true":
		return CallRead
	case string(mcp.Lookup(annotations, "destructiveHint")) == "false":
		return CallWrite
	}
	return CallDestructive
}
