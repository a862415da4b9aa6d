package result

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result/jq"
)

// OwnSelect is the argument by which a model selects from the result of its call.
const OwnSelect = "toolgate_select"

const ownSelectSchema = `{"type":"string","description":"A jq filter. You get what it returns instead of the whole result, such as .items[] | {id, title}"}`

// takesOwn reports whether models may give a program to a tool with an input schema. A
// tool with an argument of that name keeps it.
func (s *Shaping) takesOwn(input []byte) bool {
	return s.Own && mcp.IsObject(input) && !s.Shadowed(input)
}

// Shadowed reports whether the argument for models belongs to the tool itself.
func (s *Shaping) Shadowed(input []byte) bool {
	return s.Own && !mcp.LookupSpan(input, "properties", OwnSelect).Absent()
}

// Listed returns a tool as clients see it: with the argument for models, and without an
// output schema that its results need not match.
func (s *Shaping) Listed(tool []byte) []byte {
	if !s.Reshapes() {
		return tool
	}
	tool = mcp.RemoveMember(tool, "outputSchema")
	if input := mcp.Lookup(tool, "inputSchema"); s.takesOwn(input) {
		properties := mcp.Lookup(input, "properties")
		if !mcp.IsObject(properties) {
			properties = nil
		}
		input = mcp.SetMember(input, "properties", mcp.SetMember(properties, OwnSelect, []byte(ownSelectSchema)))
		tool = mcp.SetMember(tool, "inputSchema", input)
	}
	return tool
}

// Arguments returns the arguments of a call for the tool itself, and the text of the
// program of the model; nil where it gave none.
func (s *Shaping) Arguments(input, given []byte) (own, program []byte) {
	if !s.takesOwn(input) {
		return given, nil
	}
	program = mcp.Lookup(given, OwnSelect)
	if program == nil {
		return given, nil
	}
	return mcp.RemoveMember(given, OwnSelect), program
}

// OwnProgram compiles the program of a model. The error is a sentence for it, without its end.
func OwnProgram(program []byte) (*jq.Program, error) {
	if program == nil || string(program) == "null" {
		return nil, nil //nolint:nilnil // there is none
	}
	text, err := mcp.Unquote(program)
	if err != nil {
		return nil, fmt.Errorf("%s is a text with a jq filter, such as .items[] | {id, title}", OwnSelect)
	}
	p, err := jq.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s does not compile: %w", OwnSelect, err)
	}
	return p, nil
}
