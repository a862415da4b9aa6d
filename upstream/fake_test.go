package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// patience is how long a test waits for what must happen, on a busy machine.
const patience = 20 * time.Second

// receives waits for a value from c.
func receives[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
		panic("unreachable")
	}
}

// sink records what a server reports.
type sink struct {
	mu      sync.Mutex
	changed int
	events  []mcp.Event
}

func (s *sink) Changed(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed++
}

func (s *sink) Happened(ev mcp.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, ev)
}

func (s *sink) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// said returns the recorded events as "principal/session method params".
func (s *sink) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, ev := range s.events {
		all = append(all, fmt.Sprintf("%s/%s %s %s", ev.Principal, ev.Session, ev.Method, ev.Params))
	}
	return all
}

// logBook keeps log lines.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(p))
	return len(p), nil
}

func (b *logBook) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, line := range b.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// identity is the clientInfo of the tests.
var identity = []byte(`{"name":"toolgate","version":"1"}`)

// running is a server under test while its Run runs.
type running struct {
	*Server
	t     *testing.T
	sink  *sink
	log   *logBook
	stop  context.CancelFunc
	ended chan struct{}
}

// run starts a server and ends it with the test.
func run(t *testing.T, spec Spec, options ...func(*Options)) *running {
	t.Helper()
	r := &running{t: t, sink: &sink{}, log: &logBook{}, ended: make(chan struct{})}
	opts := Options{
		Sink: r.sink, Credential: NewStatic(spec.Headers), Identity: identity,
		Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, option := range options {
		option(&opts)
	}
	if spec.Key == "" {
		spec.Key = "srv"
	}
	r.Server = New(spec, opts)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.ended)
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	}()
	t.Cleanup(r.end)
	return r
}

// own returns the gateway's own connection, nil while there is none.
func (r *running) own() *Conn {
	own, _, _ := r.pool.current()
	return own
}

// end stops the server and waits for the end of Run.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Error("Run does not return")
	}
}

// state waits for a state and returns its reason.
func (r *running) state(want mcp.State) string {
	r.t.Helper()
	var got mcp.Status
	if !testwait.Within(patience, func() bool {
		_, got = r.Listing()
		return got.State == want
	}) {
		r.t.Fatalf("state is %v (%s), want %v", got.State, got.Reason, want)
	}
	return got.Reason
}

// tool returns a call of a tool by the gateway's own principal.
func tool(name, arguments string) *mcp.Call {
	return &mcp.Call{
		Method: mcp.MethodToolsCall, Kind: mcp.Tool, Key: name, Principal: "me",
		Params: []byte(`{"name":` + string(mcp.Quote(name)) + `,"arguments":` + arguments + `}`),
	}
}

// Call makes a call, and makes it again once where the server says that it is worth
// while, as the gateway does.
func (r *running) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	answer, err := r.Server.Call(ctx, call)
	if failure, ok := errors.AsType[*mcp.Failure](err); ok && failure.Renewed {
		return r.Server.Call(ctx, call)
	}
	return answer, err
}

// call makes a call and wants a result.
func (r *running) call(call *mcp.Call) string {
	r.t.Helper()
	answer, err := r.Call(r.t.Context(), call)
	if err != nil {
		r.t.Fatalf("%s: %v (log: %q)", call.Method, err, r.log.lines)
	}
	if answer.Fault != nil {
		r.t.Fatalf("%s: fault %s", call.Method, answer.Fault.Raw)
	}
	return string(answer.Result)
}

// fails makes a call and wants a failure.
func (r *running) fails(call *mcp.Call) *mcp.Failure {
	r.t.Helper()
	answer, err := r.Call(r.t.Context(), call)
	failure, ok := errors.AsType[*mcp.Failure](err)
	if !ok {
		r.t.Fatalf("%s = %s, %v; want a failure", call.Method, answer.Result, err)
	}
	return failure
}

// tools returns the names of the listed tools.
func (r *running) tools() []string {
	listing, _ := r.Listing()
	var names []string
	if listing != nil {
		for _, item := range listing.Items[mcp.Tool] {
			names = append(names, item.Key)
		}
	}
	return names
}

// toolList is a result of tools/list.
func toolList(names ...string) string {
	var items []string
	for _, name := range names {
		items = append(items, `{"name":`+string(mcp.Quote(name))+`,"inputSchema":{"type":"object"}}`)
	}
	return `{"tools":[` + strings.Join(items, ",") + `]}`
}

// jsonAnswer returns an answer as a message.
func jsonAnswer(id mcp.ID, result string) string {
	return string(mcp.AppendResult(nil, id, []byte(result)))
}

func jsonFault(id mcp.ID, code int, message string) string {
	return string(mcp.AppendFault(nil, id, mcp.Errorf(code, "%s", message)))
}

// cause is what the operator learns of a failure: its cause, with details that
// its Reason, which clients see, leaves out.
func cause(f *mcp.Failure) string {
	if f.Err == nil {
		return f.Reason
	}
	return f.Err.Error()
}
