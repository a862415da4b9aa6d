package native

import (
	"context"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/proto"
)

const (
	// maxNested is how many calls of others one call may have under way at once.
	maxNested = 64
	// answerTime is how long a plugin may take to receive an answer.
	answerTime = 10 * time.Second
)

// nestedCalls are the calls of other tools that a plugin makes within one call.
type nestedCalls struct {
	by    mcp.NestedCaller // nil makes none
	clock *clock
	id    string // of the call
	tools proto.ToolPluginClient

	all sync.WaitGroup
	mu  sync.Mutex
	n   int // under way
}

// make makes a call and brings its answer to the plugin. It does not wait for either. The
// call ends with ctx.
func (c *nestedCalls) make(ctx context.Context, in *proto.NestedCall) {
	c.mu.Lock()
	full := c.n >= maxNested
	if !full {
		c.n++
	}
	c.mu.Unlock()
	if full {
		return // the framework never asks for so many; whoever does waits until its call ends
	}
	c.clock.hold(+1)
	c.all.Go(func() {
		defer func() {
			c.clock.hold(-1)
			c.mu.Lock()
			c.n--
			c.mu.Unlock()
		}()
		out := c.answer(ctx, in)
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		_, _ = c.tools.Answer(ctx, out) // a plugin that is gone ends the call itself
	})
}

// answer makes a call.
func (c *nestedCalls) answer(ctx context.Context, in *proto.NestedCall) *proto.AnswerRequest {
	out := &proto.AnswerRequest{CallId: c.id, Id: in.GetId()}
	if c.by == nil {
		out.Refused = "Calls are nested too deeply: this one may make no others."
		return out
	}
	args := in.GetArgumentsJson()
	if len(args) > 0 && !mcp.IsObject(args) {
		out.Refused = "The arguments are not a JSON object."
		return out
	}
	got := c.by.Call(ctx, mcp.NestedAs{}, mcp.NestedCall{Tool: in.GetTool(), Args: args})
	switch {
	case got.Fault != nil:
		out.Refused = got.Fault.Message
	case len(got.Result) == 0:
		out.Refused = "The call has no result."
	default:
		out.ResultJson = got.Result
	}
	return out
}
