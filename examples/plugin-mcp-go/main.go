// Command plugin-mcp-go is an MCP server of mark3labs/mcp-go, served as a plugin of
// toolgate. The server is as it would be over stdio; the last two lines of main differ.
package main

import (
	"context"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/toolgate/toolgate/native/sdk"
	"github.com/toolgate/toolgate/native/sdk/mcpgo"
)

type words struct {
	Text string `json:"text" jsonschema:"words, divided by blanks"`
}

type sorted struct {
	Words []string `json:"words"`
}

func main() {
	s := server.NewMCPServer("sorter", "1.0.0", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("sort", mcp.WithDescription("Sort words."), mcp.WithReadOnlyHintAnnotation(true),
		mcp.WithInputSchema[words](), mcp.WithOutputSchema[sorted]()), mcp.NewStructuredToolHandler(sortWords))

	plugin := mcpgo.New("sorter", "1.0.0", s, func(t *sdk.Tool) { t.Risk = sdk.Low })
	plugin.Serve()
}

func sortWords(_ context.Context, _ mcp.CallToolRequest, in words) (sorted, error) {
	out := sorted{strings.Fields(in.Text)}
	slices.Sort(out.Words)
	return out, nil
}
