package schemas

import "github.com/toolgate/toolgate/internal/mcp"

// Mode is how the schemas of tools are listed.
type Mode string

// The modes.
const (
	Verbatim    Mode = "verbatim" // as their servers wrote them; also the zero value
	CompactMode Mode = "compact"  // without what does not help a model, see [Compact]
	StrictMode  Mode = "strict"   // for clients that refuse parts of JSON Schema, see [Strict]
)

// Modes are all modes.
var Modes = []Mode{Verbatim, CompactMode, StrictMode}

// Tool returns a listed tool with its schemas in a mode, and the translation of arguments
// that are made for it. The tool is validated JSON. The same bytes are returned where
// nothing changes.
func (m Mode) Tool(tool []byte) ([]byte, Rewritten) {
	if m != CompactMode && m != StrictMode {
		return tool, Rewritten{}
	}
	var r Rewritten
	input := mcp.Lookup(tool, "inputSchema")
	was := input
	if m == StrictMode {
		r = Strict(input)
		input = r.Schema
	}
	if input = Compact(input); string(input) != string(was) {
		tool = mcp.SetMember(tool, "inputSchema", input)
	}
	r.Schema = input
	if output := mcp.Lookup(tool, "outputSchema"); output != nil {
		if compact := Compact(output); string(compact) != string(output) {
			tool = mcp.SetMember(tool, "outputSchema", compact)
		}
	}
	return tool, r
}
