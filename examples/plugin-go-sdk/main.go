// Command plugin-go-sdk is an MCP server of the official Go SDK, served as a plugin of
// toolgate. The server is as it would be over stdio; the last three lines of main differ.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/native/sdk"
	"github.com/toolgate/toolgate/native/sdk/gosdk"
)

type text struct {
	Path string `json:"path" jsonschema:"a file whose words are counted"`
}

type count struct {
	Words int `json:"words"`
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "words", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "count", Description: "Count the words of a file.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, countWords)

	plugin := gosdk.New("words", "1.0.0", server, func(t *sdk.Tool) { t.Risk = sdk.Low })
	plugin.Serve()
}

func countWords(ctx context.Context, req *mcp.CallToolRequest, in text) (*mcp.CallToolResult, count, error) {
	raw, err := os.ReadFile(in.Path)
	if err != nil {
		return nil, count{}, fmt.Errorf("read the file: %w", err)
	}
	out, within := count{}, false
	for _, c := range string(raw) {
		word := c > ' '
		if word && !within {
			out.Words++
		}
		within = word
	}
	err = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: req.Params.GetProgressToken(), Progress: 1, Total: 1, Message: "counted",
	})
	return nil, out, err
}
