package native

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/proto"
)

// errSilent cancels a call whose tool has sent nothing for too long.
var errSilent = errors.New("no answer within the deadline")

// Call runs a tool. It never retries: when a process ends during a call, nobody knows
// what it has done.
func (p *Plugin) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	if call.Method != mcp.MethodToolsCall {
		return mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s", call.Method)}, nil
	}
	p.calls.Add(1)
	defer p.calls.Add(-1)
	running, err := p.serving(ctx)
	if err != nil {
		return mcp.Answer{}, err
	}
	name, _ := mcp.LookupString(call.Params, "name")
	facts, known := running.catalog.facts[name]
	if !known {
		return mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", name)}, nil
	}
	args := mcp.Lookup(call.Params, "arguments")
	if args == nil || string(args) == "null" {
		args = []byte("{}")
	}
	// Without the caller's deadline: gRPC reports it before the context ends, which
	// would look like the end of the process.
	cctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	clock := p.clock(call, &facts, func() { cancel(errSilent) })
	defer clock.timer.Stop()
	in := &proto.CallRequest{Name: name, ArgumentsJson: args, CallId: rand.Text(), Nested: call.Nested != nil}
	stream, err := running.tools.Call(cctx, in)
	if err != nil {
		return mcp.Answer{}, p.failure(cctx, err)
	}
	nested := nestedCalls{by: call.Nested, clock: clock, id: in.GetCallId(), tools: running.tools}
	defer nested.all.Wait() // after cancel, which ends them
	defer cancel(nil)
	for {
		event, err := stream.Recv()
		if err != nil {
			return p.broken(cctx, name, err)
		}
		switch e := event.GetEvent().(type) {
		case *proto.CallEvent_Progress:
			clock.heard()
			NotifyProgress(call, e.Progress.GetDone(), e.Progress.GetTotal(), e.Progress.GetMessage())
		case *proto.CallEvent_Log:
			notifyLog(call, e.Log)
		case *proto.CallEvent_Nested:
			nested.make(cctx, e.Nested)
		case *proto.CallEvent_NestedCancel:
			nested.cancel(e.NestedCancel.GetId())
		case *proto.CallEvent_Result:
			return p.answer(name, e.Result)
		}
	}
}

// clock limits the duration of a call. It is safe for concurrent use.
type clock struct {
	timer *time.Timer
	idle  time.Duration
	hard  time.Time

	mu   sync.Mutex
	held int // how many nested calls the tool waits for
}

func (p *Plugin) clock(call *mcp.Call, facts *Facts, expired func()) *clock {
	t := &p.spec.Timeouts
	first, hard := t.Call, t.Hard
	if facts.Timeout > 0 {
		first = facts.Timeout
	}
	if call.Timeout > 0 {
		first = call.Timeout
	}
	if call.Hard > 0 {
		hard = call.Hard
	}
	idle := first
	if t.Idle > 0 {
		idle = t.Idle
	}
	if call.Idle > 0 {
		idle = call.Idle
	}
	return &clock{timer: time.AfterFunc(min(first, hard), expired), idle: idle, hard: time.Now().Add(hard)}
}

// heard restarts the idle timer, within the hard limit. A tool that waits for others is not
// idle.
func (c *clock) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reset()
}

// hold says that the tool waits for one more nested call, or for one less.
func (c *clock) hold(more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += more
	c.reset()
}

// reset starts the timer again; mu is held.
func (c *clock) reset() {
	left := time.Until(c.hard)
	if c.held == 0 {
		left = min(left, c.idle)
	}
	c.timer.Reset(max(0, left))
}

// broken returns the answer or error of a call that ended without a result.
func (p *Plugin) broken(ctx context.Context, tool string, err error) (mcp.Answer, error) {
	switch status.Code(err) {
	case codes.Internal, codes.Unknown, codes.FailedPrecondition, codes.DataLoss, codes.Unimplemented:
		if errors.Is(err, io.EOF) {
			break
		}
		p.log.Error("tool failed", "tool", tool, "err", printable([]byte(err.Error())))
		return mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(mcp.CodeInternal, "The tool %s failed; the log of the gateway says why.", tool)}, nil
	default:
	}
	return mcp.Answer{}, p.failure(ctx, err)
}

// failure returns why a call has no answer.
func (p *Plugin) failure(ctx context.Context, err error) error {
	f := &mcp.Failure{Origin: mcp.OriginServer, Server: p.spec.Key, Delivered: true, Err: err}
	code := status.Code(err)
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		f.Kind, f.Reason = mcp.FailTimeout, "The tool of "+p.spec.Key+" did not answer within its deadline."
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case code == codes.ResourceExhausted:
		f.Kind = mcp.FailTooLarge
		f.Reason = "The answer of the tool is larger than the limit of " + strconv.Itoa(p.spec.Result) + " bytes (limits.result)."
	case errors.Is(err, io.EOF), code == codes.OK:
		f.Kind, f.Reason = mcp.FailProtocol, "The tool of "+p.spec.Key+" ended without an answer."
	default:
		f.Kind = mcp.FailUnavailable
		f.Reason = "The process of " + p.spec.Key + " ended during the call; whether the tool has done its work is not known. It is started again, unless it ends too often."
	}
	p.log.Debug("call failed", "kind", string(f.Kind), "err", err)
	return f
}

// answer returns a result in the form of MCP. The plugin's JSON is copied as it is.
func (p *Plugin) answer(tool string, r *proto.Result) (mcp.Answer, error) {
	content, structured := r.GetContentJson(), r.GetStructuredJson()
	out := make([]byte, 0, len(content)+len(structured)+len(r.GetText())+128)
	out = append(out, `{"content":`...)
	switch {
	case len(content) > 0:
		out = append(out, content...)
	case r.GetText() == "" && len(structured) > 0:
		out = append(mcp.AppendQuote(append(out, `[{"type":"text","text":`...), string(structured)), "}]"...)
	default:
		out = append(mcp.AppendQuote(append(out, `[{"type":"text","text":`...), r.GetText()), "}]"...)
	}
	if len(structured) > 0 {
		out = append(append(out, `,"structuredContent":`...), structured...)
	}
	if r.GetIsError() {
		out = append(out, `,"isError":true`...)
	}
	out = append(out, '}')
	bad := len(out) > p.spec.Result
	if bad {
		return mcp.Answer{}, &mcp.Failure{
			Kind: mcp.FailTooLarge, Origin: mcp.OriginServer, Server: p.spec.Key, Delivered: true,
			Reason: "The answer of the tool is larger than the limit of " + strconv.Itoa(p.spec.Result) + " bytes (limits.result).",
		}
	}
	if len(content) > 0 && !mcp.IsArray(content) || mcp.Validate(out, mcp.Limits{}) != nil {
		p.log.Error("tool gave an answer that is not valid", "tool", tool)
		return mcp.Answer{}, &mcp.Failure{
			Kind: mcp.FailProtocol, Origin: mcp.OriginServer, Server: p.spec.Key, Delivered: true, Reason: "The tool of " + p.spec.Key + " gave an answer that is not valid.",
		}
	}
	return mcp.Answer{Era: mcp.Modern, Result: out}, nil
}

// NotifyProgress reports to the client of a call how far that is, if the client has asked;
// total is 0 where it is not known. What is no finite number is dropped.
func NotifyProgress(call *mcp.Call, done, total float64, message string) {
	if call.Notify == nil || !call.Progress || !finite(done) || !finite(total) {
		return
	}
	out := strconv.AppendFloat([]byte(`{"progress":`), done, 'g', -1, 64)
	if total != 0 {
		out = strconv.AppendFloat(append(out, `,"total":`...), total, 'g', -1, 64)
	}
	if message != "" {
		out = mcp.AppendQuote(append(out, `,"message":`...), message)
	}
	call.Notify(mcp.NotifyProgress, append(out, '}'))
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func notifyLog(call *mcp.Call, e *proto.Log) {
	data := e.GetDataJson()
	if call.Notify == nil || call.LogLevel == "" || len(data) == 0 || mcp.Validate(data, mcp.Limits{}) != nil {
		return
	}
	out := mcp.AppendQuote([]byte(`{"level":`), e.GetLevel())
	if e.GetLogger() != "" {
		out = mcp.AppendQuote(append(out, `,"logger":`...), e.GetLogger())
	}
	call.Notify(mcp.NotifyMessage, append(append(append(out, `,"data":`...), data...), '}'))
}
