package inside

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/toolapi"
)

// listedTime is how long clients may keep the list, which never changes.
const listedTime = time.Hour

// Backend serves a group. It is ready from the start and safe for concurrent use.
type Backend struct {
	spec    native.Spec
	log     *slog.Logger
	tools   *toolapi.Server
	listing *mcp.Listing
	facts   map[string]native.Facts
	calls   atomic.Int64 // under way
}

// New returns the backend of a plugin. Of the spec, the key, the configuration, the
// timeouts and the size of results count. The error is a mistake in the tools.
func New(spec native.Spec, p *toolapi.Plugin, log *slog.Logger) (*Backend, error) {
	b := &Backend{spec: spec, log: log.With("server", spec.Key), tools: toolapi.NewServer(p), facts: make(map[string]native.Facts)}
	config := spec.Config
	if config == nil {
		config = []byte("{}")
	}
	if err := b.tools.Init(config); err != nil {
		return nil, fmt.Errorf("make the tools of %s: %w", spec.Key, err)
	}
	b.listing = &mcp.Listing{
		Era: mcp.Modern, Version: mcp.V20260728, Capabilities: []byte(`{"tools":{}}`), FetchedAt: time.Now(),
		ServerInfo: append(mcp.AppendQuote([]byte(`{"name":`), spec.Key), `,"version":""}`...),
		Items:      map[mcp.Kind][]mcp.Item{}, TTL: map[mcp.Kind]time.Duration{mcp.Tool: listedTime},
	}
	b.listing.Asks = p.Asks
	tools := b.tools.Tools()
	for i := range tools {
		if err := b.add(&tools[i]); err != nil {
			return nil, fmt.Errorf("make the tool %s of %s: %w", tools[i].Name, spec.Key, err)
		}
	}
	slices.SortFunc(b.listing.Items[mcp.Tool], func(a, b mcp.Item) int { return strings.Compare(a.Key, b.Key) })
	return b, nil
}

// add lists a tool.
func (b *Backend) add(t *toolapi.Tool) error {
	raw, err := json.Marshal(struct {
		Name        string          `json:"name"`
		Title       string          `json:"title,omitempty"`
		Description string          `json:"description,omitempty"`
		Input       json.RawMessage `json:"inputSchema"`
		Output      json.RawMessage `json:"outputSchema,omitempty"`
		Annotations map[string]bool `json:"annotations"`
	}{t.Name, t.Title, t.Description, t.Input, t.Output, map[string]bool{
		"readOnlyHint": t.ReadOnly, "destructiveHint": t.Destructive, "idempotentHint": t.Idempotent, "openWorldHint": t.OpenWorld,
	}})
	if err != nil {
		return err
	}
	item, err := mcp.ParseItem(mcp.Tool, raw)
	if err != nil {
		return err
	}
	b.listing.Items[mcp.Tool] = append(b.listing.Items[mcp.Tool], item)
	f := native.Facts{
		ReadOnly: t.ReadOnly, Destructive: t.Destructive && !t.ReadOnly, Category: t.Category, Risk: toolapi.High,
		Timeout: t.Timeout, RatePerHour: t.RatePerHour, Queue: t.Queue,
	}
	if t.Risk == toolapi.Low || t.Risk == toolapi.Medium {
		f.Risk = t.Risk
	}
	b.facts[t.Name] = f
	return nil
}

// Name returns the backend's key.
func (b *Backend) Name() string { return b.spec.Key }

// Kind returns the kind of the server for lists of servers.
func (b *Backend) Kind() string { return "native" }

// Spec returns what the backend was made with.
func (b *Backend) Spec() *native.Spec { return &b.spec }

// Listing returns the tools.
func (b *Backend) Listing() (*mcp.Listing, mcp.Status) {
	return b.listing, mcp.Status{State: mcp.Ready, Since: b.listing.FetchedAt}
}

// Facts returns what a tool declares beyond its definition.
func (b *Backend) Facts(tool string) (f native.Facts, ok bool) {
	f, ok = b.facts[tool]
	return f, ok
}

// Tools returns the names of the tools, sorted.
func (b *Backend) Tools() []string { return slices.Sorted(maps.Keys(b.facts)) }

// Layers returns nothing: there is no process to confine.
func (b *Backend) Layers() []string { return nil }

// PID returns 0: there is no process of its own.
func (b *Backend) PID() int { return 0 }

// Stderr returns nothing.
func (b *Backend) Stderr() (lines []string, ended int) { return nil, 0 }

// Probe always succeeds.
func (b *Backend) Probe(context.Context) error { return nil }

// Run closes the group when the context ends.
func (b *Backend) Run(ctx context.Context) error {
	<-ctx.Done()
	b.tools.Close()
	return nil
}

// Drain waits until no call runs or ctx ends.
func (b *Backend) Drain(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for b.calls.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

type callKey struct{}

// CallOf returns the call of the gateway that a tool runs in, with its principal and its
// way to ask the client; nil outside of one.
func CallOf(ctx context.Context) *mcp.Call {
	call, _ := ctx.Value(callKey{}).(*mcp.Call)
	return call
}

// WithCall returns a context in which [CallOf] returns a call, for tests of tools.
func WithCall(ctx context.Context, call *mcp.Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// errLate is the cause of a call that exceeded its deadline.
var errLate = errors.New("the call took too long")

// defaultTime bounds a call of a tool that has no timeout, on a server without one.
const defaultTime = 2 * time.Minute

// Call runs a tool. It never retries.
func (b *Backend) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	if call.Method != mcp.MethodToolsCall {
		return mcp.Answer{Era: b.listing.Era, Fault: mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s", call.Method)}, nil
	}
	name, _ := mcp.LookupString(call.Params, "name")
	facts, ok := b.facts[name]
	if !ok {
		return mcp.Answer{Era: b.listing.Era, Fault: mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", name)}, nil
	}
	b.calls.Add(1)
	defer b.calls.Add(-1)
	limit := defaultTime
	for _, t := range [...]time.Duration{b.spec.Timeouts.Call, facts.Timeout, call.Timeout} {
		if t > 0 {
			limit = t
		}
	}
	bounded, stop := cancel.WithTimeoutCause(ctx, limit, errLate)
	defer stop()
	got, err := b.run(bounded, name, call)
	if err != nil {
		return mcp.Answer{}, b.failure(ctx, bounded, name, limit, err)
	}
	return b.answer(name, &got)
}

// failure is why a call with this limit has no answer.
func (b *Backend) failure(ctx, bounded context.Context, name string, limit time.Duration, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil:
		return &mcp.Failure{
			Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: b.spec.Key, Delivered: true, Err: err,
			Reason: fmt.Sprintf("The tool %s did not answer within %s.", name, limit),
		}
	}
	b.log.Error("tool failed", "tool", name, "err", err)
	return &mcp.Failure{
		Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Server: b.spec.Key, Delivered: true, Err: err,
		Reason: fmt.Sprintf("The tool %s failed; the log of the gateway says why.", name),
	}
}

// run runs a tool. A panic is the error of this call alone.
func (b *Backend) run(ctx context.Context, name string, call *mcp.Call) (got toolapi.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			b.log.Error("panic", "tool", name, "value", fmt.Sprint(r), "stack", string(debug.Stack()))
			err = fmt.Errorf("the tool %s panicked: %v", name, r)
		}
	}()
	args := mcp.Lookup(call.Params, "arguments")
	if args == nil || string(args) == "null" {
		args = []byte("{}")
	}
	return b.tools.Call(cancel.WithValues(WithCall(ctx, call)), name, &toolapi.Call{
		ID: rand.Text(), Arguments: args, Progress: progressOf(call), Log: func(string, string) {},
	})
}

// answer returns a result in the form of MCP.
func (b *Backend) answer(tool string, r *toolapi.Result) (mcp.Answer, error) {
	out := []byte(`{"content":`)
	switch {
	case len(r.Content) > 0:
		out = append(out, r.Content...)
	case r.Text == "" && len(r.Structured) > 0:
		out = append(mcp.AppendQuote(append(out, `[{"type":"text","text":`...), string(r.Structured)), "}]"...)
	default:
		out = append(mcp.AppendQuote(append(out, `[{"type":"text","text":`...), r.Text), "}]"...)
	}
	if len(r.Structured) > 0 {
		out = append(append(out, `,"structuredContent":`...), r.Structured...)
	}
	if r.IsError {
		out = append(out, `,"isError":true`...)
	}
	out = append(out, '}')
	failed := &mcp.Failure{Kind: mcp.FailProtocol, Origin: mcp.OriginServer, Server: b.spec.Key, Delivered: true}
	switch {
	case b.spec.Result > 0 && len(out) > b.spec.Result:
		failed.Kind, failed.Reason = mcp.FailTooLarge, fmt.Sprintf("The answer of the tool is larger than the limit of %d bytes (limits.result).", b.spec.Result)
	case mcp.Validate(out, mcp.Limits{}) != nil:
		failed.Reason = "The tool " + tool + " gave an answer that is not valid."
	default:
		return mcp.Answer{Era: b.listing.Era, Result: out}, nil
	}
	return mcp.Answer{}, failed
}
