// Package inprocesstest tests what every adapter of native/sdk promises, with a server
// that each of their tests writes with its own library.
package inprocesstest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/native/sdk"
	"github.com/toolgate/toolgate/native/sdk/sdktest"
)

// Server says what the server of a test shares with the test. It has more tools than one
// page, and among them:
//
//   - add, titled "Add up", read only and in a closed world, with a and b, whole numbers:
//     reports the progress 1 of 2 and 2 of 2, logs the texts of a and of b, and returns
//     {"sum": a + b}
//   - digits: returns {"n": 9007199254740993}, which no float64 is
//   - fail: answers with isError and the text "no such place"
//   - broken: its error is one of JSON-RPC, and says "disk full"
//   - panics
//   - wait: closes Waiting, and Ended when its context has ended
//   - ask: asks its client something
//   - with.dot: answers "dotted"
type Server struct {
	Waiting, Ended chan struct{}
}

// New returns what a server shares.
func New() *Server { return &Server{make(chan struct{}), make(chan struct{})} }

// Describe describes the tools of the server: New of an adapter is given it.
func Describe(t *sdk.Tool) {
	if t.Name == "with.dot" {
		t.Name = "with_dot"
	}
	if t.Name == "add" {
		t.Risk, t.Category = sdk.Low, "sums"
	}
}

// Run tests a plugin of the server that was described by [Describe].
func Run(t *testing.T, p *sdk.Plugin, s *Server) {
	c := sdktest.Start(t, p, "{}")
	t.Run("tools", func(t *testing.T) { tools(t, p) })
	t.Run("results", func(t *testing.T) { results(t, c) })
	t.Run("concurrent calls", func(t *testing.T) { concurrent(t, c) })
	t.Run("cancellation", func(t *testing.T) { cancellation(t, c, s) })
}

func tools(t *testing.T, p *sdk.Plugin) {
	all, err := p.Tools()
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]*sdk.Tool{}
	for i := range all {
		named[all[i].Name] = &all[i]
	}
	for _, name := range []string{"add", "digits", "fail", "broken", "panics", "wait", "ask", "with_dot"} {
		if named[name] == nil {
			t.Fatalf("there is no tool %s among %d", name, len(all))
		}
	}
	add := named["add"]
	if add.Title != "Add up" || !add.ReadOnly || add.Destructive || add.OpenWorld || add.Risk != sdk.Low || add.Category != "sums" {
		t.Errorf("add: %+v", add)
	}
	for _, schema := range []string{string(add.Input), string(add.Output)} {
		if !strings.Contains(schema, `"integer"`) || !strings.Contains(schema, `"object"`) {
			t.Errorf("a schema of add is %s", schema)
		}
	}
	if other := named["broken"]; other.ReadOnly || !other.Destructive || !other.OpenWorld || other.Risk != "" || len(other.Output) != 0 {
		t.Errorf("a tool of which nothing is said: %+v", other)
	}
}

func results(t *testing.T, c *sdktest.Client) {
	got, err := c.Call(t.Context(), "add", map[string]int64{"a": 1 << 52, "b": 1})
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Structured) != `{"sum":4503599627370497}` || got.IsError || !strings.Contains(string(got.Content), "4503599627370497") {
		t.Errorf("add: %s %s", got.Structured, got.Content)
	}
	reported(t, got, `"4503599627370496"`, `"1"`)
	if got, err = c.Call(t.Context(), "digits", struct{}{}); err != nil || string(got.Structured) != `{"n":9007199254740993}` {
		t.Errorf("digits: %+v, %v", got, err)
	}
	if got, err = c.Call(t.Context(), "fail", struct{}{}); err != nil || !got.IsError || !strings.Contains(string(got.Content), "no such place") {
		t.Errorf("fail: %+v, %v", got, err)
	}
	if got, err = c.Call(t.Context(), "with_dot", struct{}{}); err != nil || !strings.Contains(string(got.Content), "dotted") {
		t.Errorf("with.dot: %+v, %v", got, err)
	}
	for tool, say := range map[string]string{"broken": "disk full", "panics": "panicked"} {
		if _, err = c.Call(t.Context(), tool, struct{}{}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", tool, err)
		}
	}
	// The library refuses the question, and the tool answers or fails with that.
	if got, err = c.Call(t.Context(), "ask", struct{}{}); err == nil && !got.IsError {
		t.Errorf("ask was answered: %+v", got)
	}
}

// reported tells whether a call of add got its own reports, in their order.
func reported(t *testing.T, got *sdktest.Answer, logs ...string) {
	t.Helper()
	if len(got.Progress) != 2 || got.Progress[0].GetDone() != 1 || got.Progress[1].GetDone() != 2 || got.Progress[1].GetTotal() != 2 || got.Progress[1].GetMessage() != "added" {
		t.Errorf("progress: %v", got.Progress)
	}
	var said []string
	for _, l := range got.Logs {
		said = append(said, string(l.GetDataJson()))
	}
	if !slices.Equal(said, logs) {
		t.Errorf("logs: %q, want %q", said, logs)
	}
}

// concurrent calls get what belongs to them and nothing of each other.
func concurrent(t *testing.T, c *sdktest.Client) {
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			got, err := c.Call(t.Context(), "add", map[string]int{"a": n, "b": 100 + n})
			if err != nil {
				t.Errorf("call %d: %v", n, err)
				return
			}
			reported(t, got, quoted(n), quoted(100+n))
		})
	}
	all.Wait()
}

// cancellation of a call ends the context of its tool.
func cancellation(t *testing.T, c *sdktest.Client, s *Server) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.Waiting
		cancel()
	}()
	if _, err := c.Call(ctx, "wait", struct{}{}); status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
		t.Errorf("a call that nobody waits for: %v", err)
	}
	<-s.Ended
	if got, err := c.Call(t.Context(), "add", map[string]int{"a": 1, "b": 2}); err != nil || string(got.Structured) != `{"sum":3}` {
		t.Errorf("a call after it: %+v, %v", got, err)
	}
}

func quoted(n int) string { return strconv.Quote(strconv.Itoa(n)) }
