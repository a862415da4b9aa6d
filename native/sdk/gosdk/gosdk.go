// Package gosdk makes a plugin of an MCP server that is written with
// github.com/modelcontextprotocol/go-sdk:
//
//	server := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil)
//	mcp.AddTool(server, &mcp.Tool{Name: "today"}, today)
//	gosdk.New("weather", "1.0.0", server).Serve()
//
// The program is then a plugin of toolgate ([github.com/toolgate/toolgate/native/sdk]):
// it is started when its checksum is the configured one, and confined.
//
// A plugin offers tools alone. Prompts and resources of the server are not offered, and a
// tool that asks its client something (sampling, elicitation, roots) gets an error from the
// library. The tools are those that the server has when it is started; later changes
// count at the next start.
package gosdk

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/native/sdk"
	"github.com/toolgate/toolgate/native/sdk/internal/inprocess"
)

// New returns a plugin with the tools of a server. The server gets a middleware, and
// serves nobody else.
//
// Schemas, annotations, structured results, progress and log messages are those of the
// server. An error of JSON-RPC with the code for invalid parameters is told to whoever
// called; any other is the plugin's own, which the log has. A panic of a tool is an error of
// that call. The context of a tool ends when nobody waits any more.
//
// Each function of describe is given every tool before it is served. It can set what MCP has
// no word for: category, risk, timeout, calls in an hour, queue. It can also change a name
// that a plugin cannot have; the call reaches the server under the old one. A tool
// without a risk counts as [sdk.High].
func New(name, version string, server *mcp.Server, describe ...func(*sdk.Tool)) *sdk.Plugin {
	return inprocess.Plugin(name, version, func() (inprocess.Server, error) { return connect(server) }, describe)
}
