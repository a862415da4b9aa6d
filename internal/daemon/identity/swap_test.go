package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/auth"
)

// Nobody is known by new identities before the gate that was made with them is
// in force: a key that a reload brings, or one that has another meaning by it,
// never meets the old gate.
func TestIdentitiesComeWithTheirGate(t *testing.T) {
	t.Parallel()
	set := func(name string) *Set {
		var settings config.Toolgate
		settings.Auth.Keys = []auth.Key{{ID: name, SHA256: sum(name), Subject: name}}
		s, err := NewSet(&settings, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	k, known := NewKeeper(set("old"), slog.New(slog.DiscardHandler)), set("new")
	ask := func(key string) bool {
		q, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://127.0.0.1/mcp", http.NoBody)
		if err != nil {
			t.Error(err)
			return false
		}
		q.RemoteAddr = "127.0.0.1:9"
		q.Header.Set("Authorization", "Bearer "+key)
		_, err = k.Authenticate(q)
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
	testwait.Until(t, time.Minute, "they try", func() bool { return tries.Load() > 0 })
	before := k.InForce()
	k.SwapTo(known)(func() {
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
	k.SwapTo(known)(func() {
		if k.swap.turn.Load() != 2 {
			t.Errorf("turn %d: what is in force already is replaced", k.swap.turn.Load())
		}
	})
}

func sum(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
