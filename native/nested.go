package native

import (
	"bytes"
	"context"
	"strconv"
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

	all  sync.WaitGroup
	mu   sync.Mutex
	ends map[int64]context.CancelFunc // of those under way
}

// make makes a call and brings its answer to the plugin. It does not wait for either. The
// call ends with ctx. One that is not made is refused before make returns, so that these
// need no goroutines, however many there are.
func (c *nestedCalls) make(ctx context.Context, in *proto.NestedCall) {
	own, end := context.WithCancel(ctx)
	if refused := c.begin(in.GetId(), end); refused != "" {
		end()
		_ = c.bring(ctx, &proto.AnswerRequest{CallId: c.id, Id: in.GetId(), Refused: refused})
		return
	}
	c.clock.hold(+1)
	c.all.Go(func() {
		defer c.clock.hold(-1)
		out := c.answer(own, in)
		c.ended(in.GetId()) // the plugin may make another as soon as it has the answer
		if err := c.bring(ctx, out); err != nil && ctx.Err() == nil {
			out = &proto.AnswerRequest{CallId: c.id, Id: in.GetId(), Refused: "The result is too large or could not be handed over."}
			_ = c.bring(ctx, out) // a plugin that is gone ends the call itself
		}
	})
}

// begin notes a call, or returns why it is not made.
func (c *nestedCalls) begin(id int64, end context.CancelFunc) (refused string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, twice := c.ends[id]; {
	case twice:
		return "Another call of the tool that is under way has the same id."
	case len(c.ends) >= maxNested:
		return "The tool has " + strconv.Itoa(maxNested) + " calls of others under way, which is the most at once."
	}
	if c.ends == nil {
		c.ends = make(map[int64]context.CancelFunc)
	}
	c.ends[id] = end
	return ""
}

// cancel ends a call that is under way. It counts until it has ended.
func (c *nestedCalls) cancel(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := c.ends[id]; end != nil {
		end()
	}
}

// ended forgets a call.
func (c *nestedCalls) ended(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[id]()
	delete(c.ends, id)
}

// bring brings an answer to the plugin.
func (c *nestedCalls) bring(ctx context.Context, out *proto.AnswerRequest) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := c.tools.Answer(ctx, out)
	return err
}

// answer makes a call.
func (c *nestedCalls) answer(ctx context.Context, in *proto.NestedCall) *proto.AnswerRequest {
	out := &proto.AnswerRequest{CallId: c.id, Id: in.GetId()}
	if c.by == nil {
		out.Refused = "Calls are nested too deeply: this one may make no others."
		return out
	}
	args := bytes.TrimSpace(in.GetArgumentsJson())
	if len(args) > 0 && (mcp.Validate(args, mcp.Limits{}) != nil || !mcp.IsObject(args)) {
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
