package gosdk_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/native/sdk"
	"github.com/toolgate/toolgate/native/sdk/gosdk"
)

// A server becomes a plugin with one call. Its program ends with p.Serve().
func ExampleNew() {
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet", Description: "Greet somebody."},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Name string `json:"name" jsonschema:"whom to greet"`
		},
		) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hello, " + in.Name}}}, nil, nil
		})
	p := gosdk.New("greeter", "1.0.0", server, func(t *sdk.Tool) { t.Risk = sdk.Low })

	tools, err := p.Open([]byte("{}")) // as toolgate does when it starts the program
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	for i := range tools {
		fmt.Println(tools[i].Name, tools[i].Risk, tools[i].Description)
	}
	// Output:
	// greet low Greet somebody.
}
