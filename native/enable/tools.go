package enable

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/toolapi"
)

// The tools by which agents register tools of their own.
const (
	FindTemplates = "find_templates"
	Register      = "register_tool"
	RemoveTool    = "remove_tool"
)

// ToolTemplate is a declared tool of the operator's, from which agents may register tools.
type ToolTemplate struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"` // what its tools take at most
}

// Registration is a tool to register.
type Registration struct {
	Name        string
	Description string
	Template    string
	InputSchema json.RawMessage
	Args        []byte // the whole arguments, as they came
}

// Registered is a tool that was registered.
type Registered struct {
	Tool     string `json:"tool"` // as clients call it
	Name     string `json:"name"` // for remove_tool
	Template string `json:"template"`
	Served   bool   `json:"served"`
	Reason   string `json:"reason,omitempty"` // why it is not served
}

// Tools has the templates and the tools that were registered from them. It is safe for
// concurrent use and limits its own waits. A [toolapi.Problem] is for the caller; every other
// error is internal.
type Tools interface {
	// Templates returns the templates that the caller of the context may use.
	Templates(ctx context.Context) ([]ToolTemplate, error)
	// Registered returns the tools that a principal has registered.
	Registered(ctx context.Context, principal string) ([]Registered, error)
	// Register registers a tool for a principal, or changes the one that it has under this
	// name.
	Register(ctx context.Context, principal string, r *Registration) (Registered, error)
	RemoveTool(ctx context.Context, principal, name string) error
}

// UnknownTemplate returns the answer for a template that the caller may not use, whether
// it exists or not.
func UnknownTemplate(name string) toolapi.Problem {
	return toolapi.Problem(fmt.Sprintf("template: there is no template %q; find_templates returns what there is.", cut(name)))
}

// toolTools are the definitions of the tools, by name.
var toolTools = map[string]string{
	FindTemplates: `{"name":"find_templates","title":"Find templates","description":"List the templates from which register_tool makes tools, with the arguments that each takes, and the tools that you have registered.",` +
		`"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Words to look for in names and descriptions; leave it out for all"}},"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
	Register: `{"name":"register_tool","title":"Register a tool","description":"Register a tool of your own from a template that find_templates returns. It appears in the list of tools under the name in the answer, for you alone. A tool that you have under this name is replaced.",` +
		`"inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"Name of the new tool: letters, digits, _ and -"},` +
		`"description":{"type":"string","description":"What the tool does, for models"},` +
		`"input_schema":{"type":"object","description":"JSON Schema of its arguments: an object with properties of the template, and what you require of them"},` +
		`"template":{"type":"string","description":"Name of the template"}},"required":["name","description","input_schema","template"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`,
	RemoveTool: `{"name":"remove_tool","title":"Remove a tool","description":"Remove a tool that you have registered.",` +
		`"inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The tool, as find_templates names it"}},"required":["name"],"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false}}`,
}

// ReadRegistration reads the arguments of register_tool. The error is a [Problem].
func ReadRegistration(args []byte) (*Registration, error) {
	r := &Registration{Args: args}
	for m := range mcp.Members(args) {
		value := m.Value.Of(args)
		var err error
		switch key, _ := mcp.Unquote(m.Key(args)); key {
		case "name":
			r.Name, err = mcp.Unquote(value)
		case "description":
			r.Description, err = mcp.Unquote(value)
		case "template":
			r.Template, err = mcp.Unquote(value)
		case "input_schema":
			r.InputSchema = slices.Clone(value)
		default:
			return nil, toolapi.Problem(fmt.Sprintf("There is no argument %q; there are name, description, input_schema and template.", cut(key)))
		}
		if err != nil {
			return nil, toolapi.Problem("The name, the description and the template are texts.")
		}
	}
	return r, nil
}

// foundTemplates is what find_templates answers.
type foundTemplates struct {
	Templates  []ToolTemplate `json:"templates"`
	Registered []Registered   `json:"registered"`
}

// runTools runs one of the tools for tools.
func (b *Backend) runTools(ctx context.Context, principal, name string, args []byte) (any, error) {
	switch name {
	case FindTemplates:
		query, err := only(args, "query")
		if err != nil {
			return nil, err
		}
		return b.findTemplates(ctx, principal, query)
	case Register:
		r, err := ReadRegistration(args)
		if err != nil {
			return nil, err
		}
		return b.tools.Register(ctx, principal, r)
	}
	tool, err := only(args, "name")
	if err != nil {
		return nil, err
	}
	if tool == "" {
		return nil, toolapi.Problem(`Say which tool to remove: {"name": "..."}.`)
	}
	if err := b.tools.RemoveTool(ctx, principal, tool); err != nil {
		return nil, err
	}
	return map[string]string{"removed": tool}, nil
}

func (b *Backend) findTemplates(ctx context.Context, principal, query string) (any, error) {
	registered, err := b.tools.Registered(ctx, principal)
	if err != nil {
		return nil, err
	}
	out := foundTemplates{Templates: []ToolTemplate{}, Registered: append([]Registered{}, registered...)}
	templates, err := b.tools.Templates(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range templates {
		if matches(query, t.Name+" "+t.Description) {
			out.Templates = append(out.Templates, t)
		}
	}
	return out, nil
}

// matches tells whether every word of a query is in a text.
func matches(query, text string) bool {
	text = strings.ToLower(text)
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(query)), func(word string) bool { return !strings.Contains(text, word) })
}
