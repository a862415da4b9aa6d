package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
)

// A larger limit takes effect at once, also for waiting calls.
func TestCallsPerPrincipalFollowTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		b := newScript(t, "s", mcp.Modern, tool("a"))
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			<-hold
			return answered(mcp.Modern, `{"content":[]}`), nil
		}
		r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.CallsPerPrincipal = 1 })
		call := func() *recorder {
			w, _ := r.begin(modernRequest(modernBody("1", mcp.MethodToolsCall, `"name":"s__a"`, "")))
			synctest.Wait()
			return w
		}
		first, second := call(), call()
		if n := len(b.seen("")); n != 1 {
			t.Errorf("%d run, want 1", n)
		}
		c := *r.config.Load()
		c.CallsPerPrincipal = 2
		r.Apply(c)
		synctest.Wait()
		if n := len(b.seen("")); n != 2 {
			t.Errorf("%d run with the new bound, want 2", n)
		}
		close(hold)
		<-first.done
		<-second.done
	})
}

// A call that has waited in vain for other calls of its caller says so, and leaves
// nothing behind.
func TestCallerIsToldOfItsOwnCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("a"))
		hold := make(chan struct{})
		b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
			<-hold
			return answered(mcp.Modern, `{"content":[]}`), nil
		}
		r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.CallsPerPrincipal = 1 })
		first, _ := r.begin(modernRequest(modernBody("1", mcp.MethodToolsCall, `"name":"s__a"`, "")))
		synctest.Wait()
		second, _ := r.begin(modernRequest(modernBody("2", mcp.MethodToolsCall, `"name":"s__a"`, "")))
		time.Sleep(30 * time.Second) // the longest wait for a permit
		synctest.Wait()
		if !strings.Contains(second.text(), "limits.calls_per_principal") || first.ended() {
			t.Errorf("the second: %s", second.text())
		}
		mine := limit.NewConcurrency(1, 1, r.principals)
		if mine.Acquire(ended(), "s", person("alice").Key()) == nil {
			t.Error("none of the caller's calls runs")
		}
		close(hold)
		<-first.done
		if err := mine.Acquire(t.Context(), "s", person("alice").Key()); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
}

// A server that asks its user and answers without waiting does not take a permit from
// the caller for good.
func TestQuestionsThatOutliveTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("ask"))
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			call.Ask(ctx, mcp.MethodElicit, []byte(`{"message":"m"}`), func([]byte, *mcp.Error) {})
			time.Sleep(time.Millisecond)
			return answered(mcp.Legacy, `{"content":[]}`), nil
		}
		r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.CallsPerPrincipal = 2 }).run()
		c := r.stdio(person("alice"))
		c.send(initBody)
		for i := range 5 {
			c.send(request(fmt.Sprint(2*i), "tools/call", `{"name":"s__ask"}`), request(fmt.Sprint(2*i+1), "tools/call", `{"name":"s__ask"}`))
			time.Sleep(time.Minute)
			if got := c.out.drain(); strings.Count(got, `"content":[]`) != 2 {
				t.Fatalf("two calls, again %d: %s", i, got)
			}
		}
		for range 2 { // as many as allowed
			if err := limit.NewConcurrency(2, 1, r.principals).Acquire(t.Context(), "s", person("alice").Key()); err != nil {
				t.Errorf("a call of the caller counts as running: %v", err)
			}
		}
		if s := r.snapshot.Load().catalog.byServer["s"].permits; !free(s, 32) {
			t.Error("a place is taken")
		}
	})
}

// ended is an ended context.
func ended() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}

// free reports whether all permits of a server are free.
func free(s *limit.Concurrency, places int) bool {
	for i := range places {
		who := fmt.Sprint("other ", i)
		if s.Acquire(ended(), "s", who) != nil {
			return false
		}
		defer s.Release(who)
	}
	return true
}
