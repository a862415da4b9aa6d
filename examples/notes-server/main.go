// Command notes-server is the MCP server behind the examples: it keeps notes
// in memory and needs nothing but Go.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type notes struct {
	mu    sync.Mutex
	texts []string
}

type addInput struct {
	Text   string `json:"text" jsonschema:"the note"`
	Author string `json:"author,omitempty" jsonschema:"who writes it"`
}

type addOutput struct {
	ID int `json:"id"`
}

func (n *notes) add(_ context.Context, _ *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, addOutput, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := in.Text
	if in.Author != "" {
		text += " (" + in.Author + ")"
	}
	n.texts = append(n.texts, text)
	id := len(n.texts)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("note %d: %s", id, text)}}}, addOutput{id}, nil
}

func (n *notes) list(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(n.texts, "\n")}}}, nil, nil
}

func (n *notes) clear(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.texts = nil
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "all notes are gone"}}}, nil, nil
}

type saveInput struct {
	Path string `json:"path" jsonschema:"the file to write"`
}

func (n *notes) save(_ context.Context, _ *mcp.CallToolRequest, in saveInput) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := os.WriteFile(in.Path, []byte(strings.Join(n.texts, "\n")), 0o600); err != nil {
		return nil, nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%d notes are saved", len(n.texts))}}}, nil, nil
}

func main() {
	n := &notes{}
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	yes, no := true, false
	mcp.AddTool(s, &mcp.Tool{Name: "add_note", Description: "Write a note", Annotations: &mcp.ToolAnnotations{DestructiveHint: &no}}, n.add)
	mcp.AddTool(s, &mcp.Tool{Name: "list_notes", Description: "Read all notes", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, n.list)
	mcp.AddTool(s, &mcp.Tool{Name: "clear", Description: "Throw all notes away", Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes}}, n.clear)
	mcp.AddTool(s, &mcp.Tool{Name: "save_notes", Description: "Write all notes to a file", Annotations: &mcp.ToolAnnotations{DestructiveHint: &no}}, n.save)
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
