package upstream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	// A place is its principal, in capitals where it is in use; the least
	// recently used one is first.
	tests := []struct {
		held, wants string
		most        int
		victim      int
		ok          bool
	}{
		{"", "a", 1, -1, true},
		{"", "a", 0, -1, false},
		{"ab", "a", 3, -1, true},
		{"AB", "c", 2, -1, false},
		{"ab", "c", 2, 0, true},
		{"Ab", "c", 2, 1, true},
		{"bcaaa", "d", 5, 2, true},  // of the one that holds the most
		{"bcAAA", "d", 5, 0, true},  // of another, where that one has none idle
		{"bbAAAc", "d", 6, 0, true}, // of the next one that holds the most
		{"bcAAAa", "d", 6, 5, true},
		{"bccaa", "d", 5, 1, true}, // of two that hold as much, the least recently used
		{"baaa", "a", 4, 1, true},  // at least its share: its own
		{"bAAA", "a", 4, -1, false},
		{"baaaaa", "b", 6, 1, true}, // less than its share: from the other
		{"bAAAAA", "b", 6, 0, true}, // else its own
		{"BAAAAA", "b", 6, -1, false},
		{"bba", "a", 3, 2, true}, // a share of one, which it has
		{"aabb", "a", 4, 0, true},
		{"Aab", "b", 3, 2, true},
	}
	for _, tt := range tests {
		var held []pooledConn
		for i, c := range tt.held {
			p := pooledConn{principal: string(c | 0x20), idle: c >= 'a'}
			if p.idle {
				p.used = int64(i)
			}
			held = append(held, p)
		}
		if victim, ok := admit(held, tt.wants, tt.most); victim != tt.victim || ok != tt.ok {
			t.Errorf("admit(%s, %s, %d) = %d, %v; want %d, %v", tt.held, tt.wants, tt.most, victim, ok, tt.victim, tt.ok)
		}
	}
}

// In a random history, what [admit] promises holds at every step.
func TestAdmitIsFair(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		most := random.IntN(9)
		names := []string{"a", "b", "c", "d", "e", "f"}[:1+random.IntN(6)]
		var held []pooledConn
		for step := range int64(300) {
			switch i := random.IntN(len(held) + 1); {
			case i < len(held) && random.IntN(8) == 0:
				held = append(held[:i:i], held[i+1:]...)
				continue
			case i < len(held) && random.IntN(2) == 0:
				held[i].idle, held[i].used = !held[i].idle, step
				continue
			}
			who := names[random.IntN(len(names))]
			holds, idle := make(map[string]int), make(map[string]bool)
			for _, p := range held {
				holds[p.principal]++
				idle[p.principal] = idle[p.principal] || p.idle
			}
			own := holds[who]
			richest := 0 // of those with an idle one
			for name, n := range holds {
				if idle[name] {
					richest = max(richest, n)
				}
			}
			principals := len(holds)
			if own == 0 {
				principals++
			}
			victim, ok := admit(held, who, most)
			describe := fmt.Sprintf("seed %d, step %d: %s with %d of %d wants one of %v: %d, %v", seed, step, who, own, most, held, victim, ok)
			switch {
			case len(held) < most:
				if !ok || victim != -1 {
					t.Fatalf("a free place is not given: %s", describe)
				}
			case !ok:
				if victim != -1 {
					t.Fatalf("a victim for nothing: %s", describe)
				}
				if own == 0 && richest > 0 {
					t.Fatalf("nothing for one who has nothing: %s", describe)
				}
				if idle[who] {
					t.Fatalf("not even one of its own: %s", describe)
				}
			default:
				v := held[victim]
				n := holds[v.principal]
				switch {
				case !v.idle:
					t.Fatalf("the victim is in use: %s", describe)
				case v.principal == who:
				case own >= max(1, most/principals):
					t.Fatalf("it has its share: %s", describe)
				case own > 0 && n-1 < own+1:
					t.Fatalf("taken from one that has less then: %s", describe)
				case n != richest:
					t.Fatalf("not from the one that holds the most: %s", describe)
				}
				for _, p := range held {
					if p.principal == v.principal && p.idle && p.used < v.used {
						t.Fatalf("not the least recently used: %s", describe)
					}
				}
				held = append(held[:victim:victim], held[victim+1:]...)
			}
			if ok {
				held = append(held, pooledConn{principal: who, idle: random.IntN(2) == 0, used: step})
			}
			if len(held) > most {
				t.Fatalf("%d are held after %s", len(held), describe)
			}
		}
	}
}

// A principal with many sessions makes room for one with none, and from then on
// takes only from itself.
func TestPoolFair(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	spec := f.spec()
	spec.Isolation = IsolateSession
	spec.Limits.Conns = 4 // the gateway's own and three
	r := run(t, spec)
	r.state(mcp.Ready)
	for n := range 3 {
		r.call(by("ann", fmt.Sprint(n))) // s-2 to s-4
	}
	r.call(by("bob", "0")) // s-5 instead of s-2
	for n := range 5 {
		r.call(by("ann", fmt.Sprint(10+n))) // s-6 to s-10
	}
	r.call(by("bob", "0"))
	calls := f.requests(mcp.MethodToolsCall)
	if session := calls[len(calls)-1].Header.Get(mcp.HeaderSession); session != "s-5" {
		t.Errorf("bob's second call was in session %s", session)
	}
	testwait.Until(t, patience, "the end of ann's sessions", func() bool { return len(deleted(f)) == 6 })
	if diff := cmp.Diff([]string{"s-2", "s-3", "s-4", "s-6", "s-7", "s-8"}, deleted(f)); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}

// A process that makes room for another one has ended before that one starts.
func TestPoolCountsEndingProcesses(t *testing.T) {
	t.Parallel()
	spec := childServer("scarce", mcp.Legacy)
	spec.Env = append(spec.Env, placesVariable+"="+t.TempDir())
	spec.Limits.Conns = 2
	r := run(t, spec)
	r.state(mcp.Ready)
	for n := range 4 {
		r.call(by(fmt.Sprintf("p-%d", n), ""))
	}
	r.end()
}

// When a process dies, the calls that it has not read are made again on its successor. The
// one that it may have read is not.
func TestPoolLostBeforeCall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := childServer("hostile", mcp.Legacy)
	spec.Env = append(spec.Env, placesVariable+"="+dir)
	r := run(t, spec)
	r.state(mcp.Degraded)
	r.call(by("ann", ""))
	r.pool.mu.Lock()
	conn := r.pool.slots[connKey{principal: "ann"}].conn
	r.pool.mu.Unlock()

	const callers = 6
	ended := make(chan error, callers)
	begin := func(name, arguments string) {
		call := tool(name, arguments)
		call.Principal = "ann"
		go func() {
			_, err := r.Call(within(t), call)
			ended <- err
		}()
	}
	begin("stall", `{}`)
	testwait.Until(t, patience, "the first call", func() bool { return conn.calls.Load() > 0 })
	for range callers - 1 {
		begin("echo", `{"pad":"`+strings.Repeat("x", 256<<10)+`"}`) // more than the pipe holds
	}
	testwait.Until(t, patience, "the other calls", func() bool { return conn.calls.Load() >= callers })
	if err := os.WriteFile(filepath.Join(dir, "die"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range callers {
		err := receives(t, "the end of a call", ended)
		if failure, ok := errors.AsType[*mcp.Failure](err); ok {
			failed++
			if !failure.Delivered {
				t.Errorf("failure = %+v", failure)
			}
		} else if err != nil {
			t.Error(err)
		}
	}
	if failed == 0 || failed > 2 {
		t.Errorf("%d calls failed, want the one that stalled and the one in the pipe", failed)
	}
}
