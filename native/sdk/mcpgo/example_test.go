package mcpgo_test

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/toolgate/toolgate/native/sdk"
	"github.com/toolgate/toolgate/native/sdk/mcpgo"
)

// A server becomes a plugin with one call. Its program ends with p.Serve().
func ExampleNew() {
	s := server.NewMCPServer("greeter", "1.0.0")
	s.AddTool(mcp.NewTool("greet", mcp.WithDescription("Greet somebody."), mcp.WithString("name", mcp.Required())),
		func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("Hello, " + req.GetString("name", "you")), nil
		})
	p := mcpgo.New("greeter", "1.0.0", s, func(t *sdk.Tool) { t.Risk = sdk.Low })

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
