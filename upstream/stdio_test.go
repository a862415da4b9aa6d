package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/transport"
)

func TestStdioEras(t *testing.T) {
	t.Parallel()
	tests := []struct {
		script string
		known  mcp.Era
		want   mcp.Era
	}{
		{"legacy", mcp.EraUnknown, mcp.Legacy}, // answers the probe with an error
		{"modern", mcp.EraUnknown, mcp.Modern},
		{"early", mcp.Legacy, mcp.Legacy},
		{"marked", mcp.EraUnknown, mcp.Legacy},
		{"mute", mcp.EraUnknown, mcp.Legacy}, // after three seconds
	}
	for _, tt := range tests {
		t.Run(tt.script, func(t *testing.T) {
			t.Parallel()
			r := run(t, childServer(tt.script, tt.known))
			r.state(mcp.Ready)
			listing, _ := r.Listing()
			if listing.Era != tt.want {
				t.Errorf("era = %v, want %v", listing.Era, tt.want)
			}
			if got := r.call(tool("echo", `{"n":9007199254740993}`)); !strings.Contains(got, `"arguments":{"n":9007199254740993}`) {
				t.Errorf("call = %s", got)
			}
			if err := r.Probe(within(t)); err != nil && tt.want == mcp.Modern {
				t.Errorf("Probe = %v", err)
			}
		})
	}
}

// A subscription of a modern process is a listen request on its only channel.
func TestStdioSubscription(t *testing.T) {
	t.Parallel()
	r := run(t, childServer("modern", mcp.Modern))
	r.state(mcp.Ready)
	r.call(&mcp.Call{Method: mcp.MethodSubscribe, Params: []byte(`{"uri":"file:///a"}`), Principal: "me"})
	testwait.Until(t, patience, "the update", func() bool { return len(r.sink.said()) == 1 })
	if said := r.sink.said()[0]; !strings.HasPrefix(said, "/ notifications/resources/updated {") || !strings.Contains(said, `"uri":"file:///a"`) {
		t.Errorf("event = %s", said)
	}
}

// One hostile process gets one call after the other, with good calls between and beside
// them. Whatever it writes harms only the call that it belongs to.
func TestStdioHostile(t *testing.T) {
	t.Parallel()
	spec := childServer("hostile", mcp.Legacy)
	spec.Limits.Line = 20<<20 + 100
	r := run(t, spec)

	reason := r.state(mcp.Degraded)
	if reason != "tools/list: 5 items are invalid and left out" {
		t.Errorf("reason = %s", reason)
	}
	want := []string{"echo", "no type", "null schema", "big", "half \ufffd"}
	if diff := cmp.Diff(want, r.tools()); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	listing, _ := r.Listing()
	for _, item := range listing.Items[mcp.Tool] {
		if !strings.Contains(odd, string(item.Raw)) {
			t.Errorf("%s is not as it came: %s", item.Key, item.Raw)
		}
	}
	if n := r.log.count("cannot be offered"); n != 1 {
		t.Errorf("%d log lines about odd items, want one", n)
	}

	tests := []struct {
		tool string
		kind mcp.FailureKind // or a result
		says string
	}{
		{"garbage", "", ""},
		{"half", "", ""},
		{"huge", "", ""},
		{"over", mcp.FailTooLarge, "larger than the limit"},
		{"no JSON", mcp.FailProtocol, "an invalid answer"},
		{"duplicate keys", mcp.FailProtocol, "an invalid answer"},
		{"surrogate", "", ""},
		{"silent", mcp.FailTimeout, "no answer within the deadline"},
		{"flood", "", ""},
		{"ask", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			h := &heard{}
			call := tool(tt.tool, `{}`)
			call.Progress, call.Notify = true, h.notify
			if tt.kind == mcp.FailTimeout {
				call.Timeout = 200 * time.Millisecond
			}
			answer, err := r.Call(t.Context(), call)
			if tt.kind != "" {
				failure, ok := errors.AsType[*mcp.Failure](err)
				if !ok || failure.Kind != tt.kind || !strings.Contains(cause(failure), tt.says) || !failure.Delivered {
					t.Errorf("call = %s, %+v", answer.Result, err)
				}
			} else if err != nil {
				t.Errorf("call = %v", err)
			} else {
				got := string(answer.Result)
				switch want := `{"tool":"` + tt.tool + `"}`; {
				case tt.tool == "huge":
					if got != `{"text":"`+strings.Repeat("h", 20<<20)+`"}` {
						t.Errorf("a huge answer of %d bytes is not as it was sent", len(got))
					}
				case tt.tool == "surrogate":
					if got != `{"text":"\ud83d"}` {
						t.Errorf("call = %s", got)
					}
				case got != want:
					t.Errorf("call = %.100s, want %s", got, want)
				}
			}
			if tt.tool == "flood" && len(h.list()) == 0 {
				t.Error("no progress was heard in the flood")
			}
			if got := r.call(tool("echo", `{"after":"`+tt.tool+`"}`)); !strings.Contains(got, `"after":"`+tt.tool+`"`) {
				t.Errorf("the call after it = %s", got)
			}
		})
	}
	if _, status := r.Listing(); status.State != mcp.Degraded {
		t.Errorf("state = %v (%s): the process was given up", status.State, status.Reason)
	}
	if n := r.log.count("asks faster"); n > 1 {
		t.Errorf("%d log lines about questions, want one", n)
	}
}

// A process that ends takes its calls with it, and comes back.
func TestStdioCrash(t *testing.T) {
	t.Parallel()
	for how, says := range map[string]string{
		"crash": "exited with code 3",
		"exit":  "exited with code 0",
		"close": "the process closed its stdout",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := run(t, childServer("hostile", mcp.Legacy))
			r.state(mcp.Degraded)
			failure := r.fails(tool(how, `{}`))
			if failure.Kind != mcp.FailUnavailable || !failure.Delivered || !strings.Contains(cause(failure), says) {
				t.Errorf("failure = %+v", failure)
			}
			if how == "crash" {
				if !strings.Contains(cause(failure), "segmentation fault, sort of") {
					t.Errorf("reason without the last words: %s", failure.Reason)
				}
				if got := r.Stderr(); len(got) != 1 || got[0] != "segmentation fault, sort of" {
					t.Errorf("Stderr = %q", got)
				}
			}
			if len(r.tools()) == 0 {
				t.Error("its last listing is gone")
			}
			r.state(mcp.Degraded) // again
			testwait.Until(t, patience, "a call after the restart", func() bool {
				answer, err := r.Call(t.Context(), tool("echo", `{}`))
				return err == nil && strings.Contains(string(answer.Result), "echo")
			})
		})
	}
}

func TestStdioCannotStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		spec Spec
		says string
	}{
		{"no such command", Spec{Command: "toolgate-no-such-command", Env: []string{"PATH=/nowhere"}}, `command "toolgate-no-such-command" is not in its PATH`},
		{"it dies", childServer("dies", mcp.Legacy), "exited with code 4"},
		{"it hangs", func() Spec {
			s := childServer("deaf", mcp.Legacy)
			s.Timeouts.Start = 300 * time.Millisecond
			return s
		}(), "not ready within the start timeout of 300ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, tt.spec)
			if reason := r.state(mcp.Failed); !strings.Contains(reason, tt.says) {
				t.Errorf("reason = %q, want %q in it", reason, tt.says)
			}
			failure := r.fails(tool("echo", `{}`))
			if failure.Kind != mcp.FailUnavailable || failure.Delivered || strings.Contains(failure.Reason, tt.says) {
				t.Errorf("failure = %+v", failure)
			}
			if tt.name == "it dies" && !strings.Contains(strings.Join(r.Stderr(), "\n"), "no licence found") {
				t.Errorf("Stderr = %q", r.Stderr())
			}
		})
	}
}

// A process stops reading. Calls end within their deadline; those that could not be
// written were not delivered; and Run ends within the grace of the process.
func TestStdioDeaf(t *testing.T) {
	t.Parallel()
	spec := childServer("deaf", mcp.Legacy)
	d := spec.withDefaults()
	kind, _ := transport.KindOf(string(Stdio))
	link, err := kind.Dial(t.Context(), &transport.Options{Command: d.Command, Args: d.Args, Env: d.Env, Limits: d.Limits.ofLink(), Log: quietLog}, func(mcp.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	pad := strings.Repeat("x", 64<<10)
	undelivered := 0
	ended := make(chan error, 20)
	for n := range cap(ended) {
		go func() {
			id := mcp.NumberID(int64(n))
			_, err := link.RoundTrip(ctx, &transport.Request{ID: id, Raw: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"m","params":{"p":%q}}`, id, pad)})
			ended <- err
		}()
	}
	for range cap(ended) {
		err := receives(t, "the end of a request", ended)
		if err == nil {
			t.Error("a request was answered")
		}
		if !transport.Delivered(err) {
			undelivered++
		}
	}
	if undelivered == 0 || undelivered == cap(ended) {
		t.Errorf("%d of %d were not delivered", undelivered, cap(ended))
	}
	closing, cut := context.WithCancel(t.Context())
	cut() // no grace
	link.Close(closing)
	if link.Cause() == nil {
		t.Error("a closed link has no cause")
	}
}
