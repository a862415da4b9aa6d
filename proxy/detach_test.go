package proxy

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// A part of the gateway works on when the request has ended. It knows the caller, decides again
// on the call, and holds nothing of the request.
func TestDetachedCalls(t *testing.T) {
	var over context.Context
	var own *mcp.Call
	b := newScript(t, "s", mcp.Modern, tool("a"))
	b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		over, own = call.Detached(ctx)
		return answered(mcp.Modern, `{"content":[]}`), nil
	}
	mounts := mounted(b)
	mounts[0].Native = true
	var refused error
	var asked []string
	r := newRig(t, mounts, func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
			asked = append(asked, string(q.Action)+" "+q.Identity.Subject+" "+string(q.Args))
			return gate.Decision{Effect: gate.Allow}, refused
		}))
	})
	ctx, cancel := context.WithCancel(t.Context())
	held := func() weak.Pointer[Exchange] {
		x := exchangeOf(t, "alice", modernBody("1", mcp.MethodToolsCall, `"name":"s__a","arguments":{"x":1},"task":{"ttl":5}`, ""))
		x.Header = map[string][]string{"X": {"y"}}
		c := r.newRequest(x, &planCall, mcp.Tool, "s__a")
		if got := c.serve(ctx); got.fault != nil {
			t.Fatal(got.fault)
		}
		return weak.Make(x)
	}()
	cancel()
	b.mu.Lock()
	b.got = nil
	b.mu.Unlock()
	for range 3 {
		runtime.GC()
	}
	if held.Value() != nil {
		t.Error("the request is held")
	}
	if over.Err() != nil {
		t.Errorf("it has ended with the request: %v", over.Err())
	}
	if id, _ := gate.CallerOf(over); id == nil || id.Subject != "alice" {
		t.Errorf("the caller is %+v", id)
	}
	if mode := SchemasOf(over); mode != schemas.Verbatim {
		t.Errorf("schemas were listed %q", mode)
	}
	if own.Ask != nil || own.Notify != nil || own.Permit != nil || own.Memory != nil || own.Askable || !own.Unattended || own.Nested == nil {
		t.Errorf("the call is %+v", own)
	}
	asked = nil
	if err := own.StillAllowed(over); err != nil {
		t.Error(err)
	}
	if got := strings.Join(asked, "; "); got != `view alice ; request alice {"x":1}` {
		t.Errorf("asked: %s", got)
	}
	refused = errors.New("no more")
	if own.StillAllowed(over) == nil {
		t.Error("it is still allowed")
	}
	runtime.KeepAlive(own)
}

// Without the proxy, a call is detached of its client all the same.
func TestDetachedAlone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	call := &mcp.Call{Params: []byte(`{"name":"a"}`), Askable: true, Capabilities: []byte("{}"), Notify: func(string, []byte) {}}
	over, own := call.Detached(ctx)
	cancel()
	call.Params[2] = 'x'
	if over.Err() != nil || own.Askable || own.Notify != nil || own.Capabilities != nil || string(own.Params) != `{"name":"a"}` {
		t.Errorf("%v, %+v", over.Err(), own)
	}
}
