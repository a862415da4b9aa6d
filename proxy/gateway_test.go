package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
)

func TestNewWantsItsParts(t *testing.T) {
	whole := func() Options {
		return Options{Authenticator: bearers{}, Auditor: &ledger{}, Keys: &seal.Keyring{}, Logger: slog.New(slog.DiscardHandler)}
	}
	if _, err := New(whole()); err != nil {
		t.Errorf("with all parts: %v", err)
	}
	for part, take := range map[string]func(*Options){
		"an authenticator": func(o *Options) { o.Authenticator = nil },
		"an auditor":       func(o *Options) { o.Auditor = nil },
		"keys":             func(o *Options) { o.Keys = nil },
		"a logger":         func(o *Options) { o.Logger = nil },
	} {
		o := whole()
		take(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("without %s: %v", part, err)
		}
	}
}

// Before Apply a gateway serves nothing and allows nothing.
func TestNothingApplied(t *testing.T) {
	r := newRig(t, nil)
	g, err := New(r.opts)
	if err != nil {
		t.Fatal(err)
	}
	own := &rig{Gateway: g, t: t}
	if names, _ := listed(t, mcp.Tool, own.modern("1", "tools/list", "")); len(names) != 0 {
		t.Errorf("lists %v", names)
	}
	if w := own.modern("1", "tools/call", `"name":"x"`); !strings.Contains(w.text(), "Unknown tool: x") {
		t.Errorf("%s", w.text())
	}
}

// A new configuration is served at once. Requests under way keep theirs, and unchanged
// parts stay.
func TestApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept, gone := newScript(t, "kept", mcp.Modern, tool("a")), newScript(t, "gone", mcp.Modern, tool("slow"))
		gone.reply = slowly(mcp.Modern, time.Second)
		r := newRig(t, mounted(kept, gone)).run()
		running, _ := r.begin(modernRequest(modernBody("1", "tools/call", `"name":"gone__slow"`, "")))
		listen, _ := r.begin(modernRequest(modernBody("2", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "")))
		synctest.Wait()
		listen.next()
		slots := r.snapshot.Load().catalog.byServer["kept"].permits
		r.Apply(Config{Mounts: mounted(kept), Chain: gate.NewChain(gate.Open{}), Limiter: budget.Unlimited()})
		synctest.Wait()
		if got := strings.Count(listen.next(), "tools/list_changed"); got != 1 {
			t.Errorf("told %d times of the changed list", got)
		}
		if names, _ := listed(t, mcp.Tool, r.modern("1", "tools/list", "")); !slices.Equal(names, []string{"kept__a"}) {
			t.Errorf("listed %v", names)
		}
		if w := r.modern("1", "tools/call", `"name":"gone__slow"`); !strings.Contains(w.text(), "Unknown tool") {
			t.Errorf("%s", w.text())
		}
		req := modernRequest(modernBody("1", "tools/list", "", ""))
		req.URL.Path = "/mcp/s/gone"
		if w := r.do(req); w.code() != http.StatusNotFound {
			t.Errorf("the door of the removed server: status %d", w.code())
		}
		if r.snapshot.Load().catalog.byServer["kept"].permits != slots {
			t.Error("the places of a server that stayed were made anew")
		}
		<-running.done
		if !strings.Contains(running.text(), `"result"`) {
			t.Errorf("the running call: %s", running.text())
		}
		// An Apply that only removes rights takes effect for the next request.
		r.Apply(Config{Mounts: mounted(kept), Limiter: budget.Unlimited()})
		if w := r.modern("1", "tools/call", `"name":"kept__a"`); !strings.Contains(w.text(), "Unknown tool") {
			t.Errorf("without a gate: %s", w.text())
		}
	})
}

// The end of the gateway ends all its sessions, streams and calls, and leaves nothing
// behind.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("slow"), `resource {"uri":"x:y","name":"r"}`)
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			if call.Method != mcp.MethodToolsCall {
				return answered(mcp.Legacy, `{}`), nil
			}
			<-ctx.Done()
			return mcp.Answer{}, context.Cause(ctx)
		}
		r := newRig(t, mounted(b))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		session := r.open()
		r.legacy(session, "1", "resources/subscribe", `{"uri":"s+x:y"}`)
		get, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", session))
		sse, _ := r.begin(httpRequest("GET", "/sse", ""))
		call, _ := r.begin(httpRequest("POST", "/mcp", request("2", "tools/call", `{"name":"s__slow"}`), "Mcp-Session-Id", session))
		client := r.stdio(person("bob"))
		client.send(initBody)
		synctest.Wait()
		if r.sessions.count() != 3 {
			t.Errorf("%d sessions, want 3", r.sessions.count())
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-get.done
		<-sse.done
		<-call.done
		<-client.done
		synctest.Wait()
		if r.sessions.count() != 0 || len(r.sessions.of) != 0 || len(r.watches.of) != 0 || len(r.listens.all) != 0 {
			t.Errorf("left behind: %d sessions, %v, %v, %v", r.sessions.count(), r.sessions.of, r.watches.of, r.listens.all)
		}
		if got := b.seen(mcp.MethodUnsubscribe); len(got) != 1 {
			t.Errorf("unsubscribed %d times, want once", len(got))
		}
		if got := r.ledger.outcomes(); len(got) != 2 || got[0] != "ok" || got[1] != "cancelled" { // the subscription and the call
			t.Errorf("audit %v", got)
		}
	})
}

// The instructions and capabilities of the servers are merged for initialize and
// discovery.
func TestInstructionsAndCapabilities(t *testing.T) {
	one, two := newScript(t, "one", mcp.Modern, tool("a")), newScript(t, "two", mcp.Legacy)
	one.listing.Capabilities = []byte(`{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{"n":9007199254740993}}}`)
	one.listing.Instructions, two.listing.Instructions = "First \"one\".", "Second."
	two.listing.Capabilities = []byte(`{"resources":{"subscribe":true},"logging":{},"prompts":null}`)
	r := newRig(t, mounted(one, two))
	discovery := []byte(r.modern("1", "server/discover", "").text())
	if got, want := string(mcp.Lookup(discovery, "result", "capabilities")), `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"extensions":{"a/b":{"n":9007199254740993},"io.modelcontextprotocol/tasks":{}}}`; got != want {
		t.Errorf("capabilities %s, want %s", got, want)
	}
	text, _ := mcp.LookupString(discovery, "result", "instructions")
	if want := "Tools and prompts are named SERVER__NAME after the server that they come from.\n\none__*: First \"one\".\n\ntwo__*: Second."; text != want {
		t.Errorf("instructions %q, want %q", text, want)
	}
	// While a server is unknown it may offer anything; a failed one offers nothing.
	unknown := &script{name: "u"}
	known := func() string {
		r := newRig(t, mounted(unknown), func(o *Options, _ *Config) { o.Limits.FirstList = -1 })
		return string(mcp.Lookup([]byte(r.modern("1", "server/discover", "").text()), "result", "capabilities"))
	}
	if got := known(); !strings.Contains(got, "prompts") || !strings.Contains(got, "completions") {
		t.Errorf("a server that is starting: %s", got)
	}
	unknown.status.State = mcp.Failed
	if got := known(); got != `{}` {
		t.Errorf("a server that has failed: %s", got)
	}
}
