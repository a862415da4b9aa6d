package inside_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/native/toolapi"
)

type in struct {
	Text string `json:"text,omitempty"`
}

type out struct {
	Text string `json:"text"`
}

// group has a tool for everything that can become of a call.
func group(t *testing.T) *inside.Backend {
	t.Helper()
	p := toolapi.New("test", "")
	add := func(tool toolapi.Tool, run func(context.Context, in) (out, error)) {
		toolapi.Add(p, tool, func(ctx context.Context, _ *toolapi.Call, in in) (out, error) { return run(ctx, in) })
	}
	add(toolapi.Tool{Name: "who", ReadOnly: true, Risk: toolapi.Low, Category: "c", RatePerHour: 7}, func(ctx context.Context, in in) (out, error) {
		return out{inside.CallOf(ctx).Principal + in.Text}, nil
	})
	add(toolapi.Tool{Name: "problem", Destructive: true, Risk: toolapi.Medium}, func(context.Context, in) (out, error) {
		return out{}, toolapi.Problemf("that cannot be")
	})
	add(toolapi.Tool{Name: "fails"}, func(context.Context, in) (out, error) { return out{}, errors.New("the disk is full") })
	add(toolapi.Tool{Name: "panics"}, func(context.Context, in) (out, error) { panic("no") })
	add(toolapi.Tool{Name: "waits", Timeout: time.Second}, func(ctx context.Context, _ in) (out, error) {
		<-ctx.Done()
		return out{}, ctx.Err()
	})
	add(toolapi.Tool{Name: "large"}, func(context.Context, in) (out, error) { return out{strings.Repeat("x", 2000)}, nil })
	b, err := inside.New(native.Spec{Key: "test", Shipped: true, Result: 1000}, p, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCall(t *testing.T) {
	for name, tc := range map[string]struct {
		method, params string
		want           string // in the result, the fault or the reason
		kind           mcp.FailureKind
	}{
		"a result":            {params: `{"name":"who","arguments":{"text":"!"}}`, want: `"structuredContent":{"text":"me!"}`},
		"no arguments":        {params: `{"name":"who"}`, want: `{"content":[{"type":"text","text":"{\"text\":\"me\"}"}]`},
		"null arguments":      {params: `{"name":"who","arguments":null}`, want: `"me\`},
		"a problem":           {params: `{"name":"problem"}`, want: `that cannot be"}],"isError":true`},
		"another tool":        {params: `{"name":"other"}`, want: "Unknown tool"},
		"another method":      {method: mcp.MethodPromptsGet, params: `{"name":"who"}`, want: "Method not found"},
		"arguments that are":  {params: `{"name":"who","arguments":{"text":1}}`, want: `do not fit`},
		"an error":            {params: `{"name":"fails"}`, want: "failed; the log", kind: mcp.FailUnavailable},
		"a panic":             {params: `{"name":"panics"}`, want: "failed; the log", kind: mcp.FailUnavailable},
		"more than its time":  {params: `{"name":"waits"}`, want: "within 1s", kind: mcp.FailTimeout},
		"more than its bytes": {params: `{"name":"large"}`, want: "limits.result", kind: mcp.FailTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call := &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(tc.params), Principal: "me"}
				if tc.method != "" {
					call.Method = tc.method
				}
				got, err := group(t).Call(t.Context(), call)
				failure, _ := errors.AsType[*mcp.Failure](err)
				text := string(got.Result)
				switch {
				case failure != nil:
					text = failure.Reason
				case got.Fault != nil:
					text = got.Fault.Message
				}
				if !strings.Contains(text, tc.want) || (failure != nil) != (tc.kind != "") || failure != nil && failure.Kind != tc.kind {
					t.Errorf("%s, %v, %v", got.Result, got.Fault, err)
				}
				if strings.Contains(text, "disk is full") {
					t.Error("the caller is told what is wrong inside")
				}
			})
		})
	}
}

// A call that its caller gives up ends with that cause.
func TestCallIsCancelled(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := group(t).Call(ctx, &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(`{"name":"waits"}`)}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestListing(t *testing.T) {
	b := group(t)
	l, status := b.Listing()
	if status.State != mcp.Ready || len(l.Items[mcp.Tool]) != 6 || !l.Declares("tools") {
		t.Errorf("%+v, %v", l, status)
	}
	for _, item := range l.Items[mcp.Tool] {
		if err := mcp.Validate(item.Raw, mcp.Limits{}); err != nil {
			t.Errorf("%s: %v", item.Raw, err)
		}
	}
	for tool, want := range map[string]native.Facts{
		"who":     {ReadOnly: true, Category: "c", Risk: toolapi.Low, RatePerHour: 7},
		"problem": {Destructive: true, Risk: toolapi.Medium},
		"fails":   {Risk: toolapi.High}, // which says nothing of itself
	} {
		if got, ok := b.Facts(tool); !ok || got != want {
			t.Errorf("%s: %+v", tool, got)
		}
	}
	if _, ok := b.Facts("other"); ok {
		t.Error("there are facts of another tool")
	}
	p := toolapi.New("bad", "")
	p.Add(toolapi.Tool{Name: "a b"})
	if _, err := inside.New(native.Spec{Key: "bad"}, p, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a tool with a bad name is served")
	}
}
