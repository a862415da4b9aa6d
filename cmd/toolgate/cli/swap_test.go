//go:build !windows

package cli

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/daemon"
)

// Nobody is known by new identities before the gate that was made with them is
// in force: a key that a reload brings, or one that has another meaning by it,
// never meets the old gate.
func TestIdentitiesComeWithTheirGate(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, withKeys("old"))
	r := h.newRunning(t)
	h.write(t, servers{}, withKeys("new"))
	c, err := (&options{quiet: true}).readConfig(h.file)
	if err != nil {
		t.Fatal(err)
	}
	known, err := daemon.NewIdentities(&c.Toolgate, "")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(key string) bool {
		q, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://127.0.0.1/mcp", http.NoBody)
		if err != nil {
			t.Error(err)
			return false
		}
		q.RemoteAddr = "127.0.0.1:9"
		q.Header.Set("Authorization", "Bearer "+key)
		_, err = r.Authenticate(q)
		return err == nil
	}
	if !ask("old") || ask("new") {
		t.Fatal("before: the wrong keys are known")
	}
	var inForce, over atomic.Bool
	var tries atomic.Int64
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for !over.Load() {
				before := inForce.Load()
				tries.Add(1)
				switch {
				case ask("new") && !inForce.Load():
					t.Error("a new key is known while the old gate decides")
					return
				case before && ask("old"):
					t.Error("an old key is known while the new gate decides")
					return
				}
			}
		})
	}
	for tries.Load() == 0 {
		runtime.Gosched()
	}
	before := r.Identities.Load()
	r.SwapTo(known)(func() {
		from := tries.Load()
		for n := 0; n < 200_000 && tries.Load() < from+20; n++ { // they try meanwhile, and wait
			runtime.Gosched()
		}
		inForce.Store(true)
	})
	before.Close()
	if !ask("new") || ask("old") {
		t.Error("after: the wrong keys are known")
	}
	over.Store(true)
	asking.Wait()
	r.SwapTo(known)(func() {
		if r.Swap.Turn.Load() != 2 {
			t.Errorf("turn %d: what is in force already is replaced", r.Swap.Turn.Load())
		}
	})
}
