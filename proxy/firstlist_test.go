package proxy

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/firstlist"
)

// heardAfter makes the lists of a server known after some time.
func (r *rig) heardAfter(t *testing.T, d time.Duration, b *script) {
	time.AfterFunc(d, func() {
		b.offer(t, mcp.Modern, everything, tool("echo"))
		r.Changed(b.name)
	})
}

// failsAfter makes a server fail after some time.
func (r *rig) failsAfter(d time.Duration, b *script) {
	time.AfterFunc(d, func() {
		b.mu.Lock()
		b.status.State = mcp.Failed
		b.mu.Unlock()
		r.Changed(b.name)
	})
}

// took returns how long something takes.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// A client that lists once sees the tools of servers that take some seconds to start. A
// silent server delays it for a bounded time, once, and no other client.
func TestFirstLists(t *testing.T) {
	for _, tt := range []struct {
		name   string
		known  []time.Duration // when servers become known; 0 for never
		failed time.Duration   // when another one fails; 0 for never
		took   time.Duration
		tools  int
		missed []string
	}{
		{"all known soon", []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}, 0, 200 * time.Millisecond, 2, nil},
		{"one takes as long as a package runner", []time.Duration{5 * time.Second}, 0, 5 * time.Second, 1, nil},
		{"one after the other", []time.Duration{2 * time.Second, 3900 * time.Millisecond, 5 * time.Second}, 0, 5 * time.Second, 3, nil},
		{"a slow one beside a slow one", []time.Duration{3 * time.Second, 5900 * time.Millisecond}, 0, 5900 * time.Millisecond, 2, nil},
		{"the others have failed", []time.Duration{2 * time.Second}, time.Second, 2 * time.Second, 1, nil},
		{"one fails last", []time.Duration{time.Second}, 2500 * time.Millisecond, 2500 * time.Millisecond, 1, nil},
		{"one is silent beside one that is known", []time.Duration{100 * time.Millisecond, 0}, 0, 2100 * time.Millisecond, 1, []string{"b"}},
		{"the only one is silent", []time.Duration{0}, 0, 8 * time.Second, 0, []string{"a"}},
		{"longer than clients bear", []time.Duration{7 * time.Second, 8500 * time.Millisecond}, 0, 8 * time.Second, 1, []string{"b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var servers []*script
				for i := range tt.known {
					servers = append(servers, &script{name: string(rune('a' + i))})
				}
				if tt.failed > 0 {
					servers = append(servers, &script{name: "z"})
				}
				var missed []string
				r := newRig(t, mounted(servers...), func(o *Options, _ *Config) {
					o.Limits.JSONWait = time.Minute
					o.FirstListTimedOut = func(servers []string) { missed = servers }
				}).run()
				for i, d := range tt.known {
					if d > 0 {
						r.heardAfter(t, d, servers[i])
					}
				}
				if tt.failed > 0 {
					r.failsAfter(tt.failed, servers[len(servers)-1])
				}
				if d := took(func() { r.open(); r.modern("1", "server/discover", "") }); d != 0 {
					t.Errorf("initialize and discovery took %v", d)
				}
				var names []string
				if d := took(func() { names, _ = listed(t, mcp.Tool, r.modern("1", "tools/list", "")) }); d != tt.took || len(names) != tt.tools {
					t.Errorf("the first list took %v and has %v, want %v and %d tools", d, names, tt.took, tt.tools)
				}
				if d := took(func() { r.modern("1", "tools/list", "") }); d != 0 {
					t.Errorf("the second list took %v", d)
				}
				if !slices.Equal(missed, tt.missed) {
					t.Errorf("waited in vain for %v, want %v", missed, tt.missed)
				}
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// A fast server does not end the wait for one whose program is downloaded first.
func TestFirstListsWaitForDownloads(t *testing.T) {
	for _, tt := range []struct {
		known, took time.Duration
		tools       int
	}{{5 * time.Second, 5 * time.Second, 2}, {9 * time.Second, 8 * time.Second, 1}} {
		synctest.Test(t, func(t *testing.T) {
			fast, slow := &script{name: "a"}, &script{name: "b"}
			r := newRig(t, mounted(fast, slow), func(_ *Options, c *Config) { c.Mounts[1].Fetched = true }).run()
			r.heardAfter(t, 100*time.Millisecond, fast)
			r.heardAfter(t, tt.known, slow)
			var answer string
			if d := took(func() { answer = r.modern("1", "tools/list", "").text() }); d != tt.took {
				t.Errorf("the first list took %v, want %v", d, tt.took)
			}
			if n := strings.Count(answer, "__echo"); n != tt.tools {
				t.Errorf("the first list has %d tools, want %d: %s", n, tt.tools, answer)
			}
			time.Sleep(10 * time.Second)
		})
	}
}

// Nobody waits for a server that was waited for in vain before, nor for another server
// than the requested one. A client that listens for changes hardly waits at all.
func TestFirstListsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known, silent := newScript(t, "a", mcp.Modern, tool("echo")), &script{name: "b"}
		r := newRig(t, mounted(known, silent), func(_ *Options, c *Config) { c.Mounts[1].SkipFirstListWait = true }).run()
		if d := took(func() { r.modern("1", "tools/list", "") }); d != 0 {
			t.Errorf("after a start at which it was waited for in vain: %v", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		known, silent := newScript(t, "a", mcp.Modern, tool("echo")), &script{name: "b"}
		r := newRig(t, mounted(known, silent)).run()
		if d := took(func() { r.modern("1", "tools/call", `"name":"a__echo","arguments":{}`) }); d != 0 {
			t.Errorf("a call of a server that is known took %v", d)
		}
		if d := took(func() { r.modern("1", "tools/call", `"name":"c__none","arguments":{}`) }); d != 0 {
			t.Errorf("a call of no server took %v", d)
		}
		_, leave := r.begin(modernRequest(modernBody("5", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "")))
		synctest.Wait()
		if d := took(func() { r.modern("1", "tools/list", "") }); d != firstlist.Brief {
			t.Errorf("the list of a client that listens took %v", d)
		}
		if d := took(func() { r.modern("1", "prompts/list", "") }); d != firstlist.Quiet-firstlist.Brief {
			t.Errorf("a list of which it does not took %v", d)
		}
		leave()
	})
}

// A call of a starting server waits for it, and for no other.
func TestFirstCallWaitsForItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, silent := &script{name: "a"}, &script{name: "b"}
		r := newRig(t, mounted(slow, silent)).run()
		r.heardAfter(t, 2*time.Second, slow)
		var answer string
		if d := took(func() { answer = r.modern("1", "tools/call", `"name":"a__echo","arguments":{}`).text() }); d != 2*time.Second {
			t.Errorf("it took %v", d)
		}
		if strings.Contains(answer, "Unknown tool") {
			t.Errorf("answered %s", answer)
		}
	})
}

// When the user asked to wait, initialize waits too.
func TestFirstInitializeWaitsWhereAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &script{name: "a"}
		r := newRig(t, mounted(slow)).run()
		r.WaitFirst(20 * time.Second)
		r.heardAfter(t, 12*time.Second, slow)
		if d := took(func() { r.open() }); d != 12*time.Second {
			t.Errorf("initialize took %v", d)
		}
	})
}

// An explanation of an item of a starting server waits like a list.
func TestFirstExplanationWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &script{name: "a"}
		r := newRig(t, mounted(slow)).run()
		r.heardAfter(t, 2*time.Second, slow)
		var why *Why
		if d := took(func() { why = r.Why(t.Context(), &gate.Identity{}, Scope{}, "a__echo", nil) }); d != 2*time.Second || why == nil {
			t.Errorf("it took %v and explains %v", d, why)
		}
		if d := took(func() { why = r.Why(t.Context(), &gate.Identity{}, Scope{}, "a__none", nil) }); d != 0 || why != nil {
			t.Errorf("of what does not exist it took %v and explains %v", d, why)
		}
	})
}
