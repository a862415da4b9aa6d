//go:build e2e

package matrix

import (
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// watchPrefix begins the resources that cells subscribe to; the cell's id
// follows.
const watchPrefix = "res://host/watch/"

func cutPrefix(s, prefix string) (string, bool) { return strings.CutPrefix(s, prefix) }

const anyInput = `"inputSchema":{"type":"object"}`

// headerInput is a schema whose arguments are mirrored into headers.
const headerInput = `"inputSchema":{"type":"object","properties":{"cell":{"type":"string"},` +
	`"region":{"type":"string","x-mcp-header":"Region"},"count":{"type":"integer","x-mcp-header":"Count"}}}`

// icons are those of everything that has one.
const icons = `"icons":[{"src":"https://example.com/icon.png","mimeType":"image/png"}]`

// capabilities are what the server of a revision declares.
func (s *scripted) capabilities() string {
	parts := []string{
		`"tools":{"listChanged":true}`, `"prompts":{"listChanged":true}`,
		`"resources":{"subscribe":true,"listChanged":true}`, `"logging":{}`,
	}
	if s.kind.rev >= mcp.V20250326 {
		parts = append(parts, `"completions":{}`)
	}
	switch {
	case s.kind.rev == mcp.V20251125:
		parts = append(parts, `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
	case s.kind.modern():
		parts = append(parts, `"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// decorated is an item with everything that the revision has for its looks.
func (s *scripted) decorated(item, more string) string {
	out := item
	if s.kind.rev >= mcp.V20250618 {
		out += `,"title":"A title","_meta":{"com.example/kept":9007199254740993}`
	}
	if s.kind.rev >= mcp.V20251125 {
		out += "," + icons
	}
	return "{" + out + more + "}"
}

func (s *scripted) tools() []string {
	rev := s.kind.rev
	plain := func(name string) string {
		return `{"name":"` + name + `","description":"The tool ` + name + `",` + anyInput + `}`
	}
	out := []string{
		plain("echo"), plain("ask"), plain("progress"), plain("wait"), plain("log"), plain("touch"), plain("content"), plain("steps"), plain("broken"),
		`{"name":"header",` + headerInput + `}`,
		`{"name":"app",` + anyInput + `,"_meta":{"ui":{"resourceUri":"ui://app/main.html"},"com.example/kept":1}}`,
	}
	if !s.kind.modern() && s.kind.streams() {
		out = append(out, plain("resume"))
	}
	more := ""
	if rev >= mcp.V20250326 {
		more += `,"annotations":{"readOnlyHint":true}`
	}
	if rev >= mcp.V20250618 {
		more += `,"outputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}`
	}
	if rev == mcp.V20251125 {
		more += `,"execution":{"taskSupport":"optional"}`
	}
	out = append(out, s.decorated(`"name":"fancy","x-order":1,"description":"A tool with looks",`+anyInput, more))
	if rev >= mcp.V20250618 {
		out = append(out, plain("silent"))
	}
	if rev == mcp.V20251125 {
		out = append(out, `{"name":"task",`+anyInput+`,"execution":{"taskSupport":"required"}}`)
	}
	if rev == mcp.V20260728 {
		out = append(
			out, plain("task"),
			`{"name":"rows",`+anyInput+`,"outputSchema":{"type":"array","items":{"type":"integer"}}}`,
		)
		if s.kind.streams() {
			out = append(out, `{"name":"badheader","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"not a token"}}}}`)
		}
	}
	return out
}

// list answers the request for one list.
func (s *scripted) list(method string) []byte {
	s.mu.Lock()
	changes := s.changes
	s.mu.Unlock()
	key, items := "", []string(nil)
	switch method {
	case mcp.MethodToolsList:
		key, items = "tools", s.tools()
		for n := range changes {
			items = append(items, fmt.Sprintf(`{"name":"extra%d",%s}`, n+1, anyInput))
		}
	case mcp.MethodPromptsList:
		key, items = "prompts", []string{
			`{"name":"ask","arguments":[{"name":"script","description":"What to ask","required":true}]}`,
			s.decorated(`"name":"fancy","description":"A prompt with looks"`, ""),
			`{"name":"content"}`,
		}
		for n := range changes {
			items = append(items, fmt.Sprintf(`{"name":"extra%d"}`, n+1))
		}
	case mcp.MethodResources:
		key, items = "resources", []string{
			s.decorated(`"uri":"res://host/fancy","name":"fancy","mimeType":"text/plain"`, ""),
			`{"uri":"ui://app/main.html","name":"app","mimeType":"text/html;profile=mcp-app"}`,
		}
		for n := range changes {
			items = append(items, fmt.Sprintf(`{"uri":"res://host/extra%d","name":"extra"}`, n+1))
		}
	case mcp.MethodTemplates:
		key, items = "resourceTemplates", []string{
			`{"uriTemplate":"ask://host/{script}","name":"ask"}`,
			s.decorated(`"uriTemplate":"res://host/{name}","name":"fancy"`, ""),
		}
	}
	out := `{"` + key + `":[` + strings.Join(items, ",") + `]`
	if s.kind.modern() {
		out += `,"ttlMs":60000,"cacheScope":"public"`
	}
	return []byte(out + "}")
}
