//go:build bench

package build

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/plugins/text"
	"github.com/toolgate/toolgate/native/toolapi"
	"github.com/toolgate/toolgate/proxy"
)

// Answered returns what answers the calls of native tools: with BENCH_INSIDE the gateway
// itself, where they are the group util.
func Answered(p *native.Plugin) proxy.Backend {
	if os.Getenv("BENCH_INSIDE") == "" || p.Name() != text.Name {
		return p
	}
	tools, err := text.Plugin().Tools()
	return inProcess{p, tools, err}
}

// inProcess lists what a plugin does, and runs the tools of the group util in this process.
type inProcess struct {
	*native.Plugin

	tools []toolapi.Tool
	err   error // that there are no tools
}

// Call implements [proxy.Backend].
func (p inProcess) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	if p.err != nil {
		return mcp.Answer{}, p.err
	}
	i := slices.IndexFunc(p.tools, func(t toolapi.Tool) bool { return t.Name == call.Key })
	if i < 0 {
		return mcp.Answer{}, fmt.Errorf("there is no tool %s", call.Key)
	}
	got, err := p.tools[i].Run(ctx, &toolapi.Call{
		Arguments: mcp.Lookup(call.Params, "arguments"), Progress: func(float64, float64, string) {}, Log: func(string, string) {},
	})
	if err != nil {
		return mcp.Answer{}, err
	}
	out := append(mcp.AppendQuote([]byte(`{"content":[{"type":"text","text":`), got.Text), `}],"structuredContent":`...)
	return mcp.Answer{Era: mcp.Modern, Result: append(append(out, got.Structured...), '}')}, nil
}
