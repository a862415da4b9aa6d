//go:build e2e && !windows

package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

var auditCalls = flag.Int("audit-calls", 400, "how many mixed calls the audit log is held to")

// Every call leaves one closed entry, however it ends, also when the gateway is
// killed under load: with `fsync: always` there is no tail that may be missing.
func TestEveryCallIsInTheAuditLogOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, map[string]any{
		"audit":   map[string]any{"fsync": "always", "mode": "required", "rotate_size": "256KiB"},
		"servers": map[string]any{"a": map[string]any{"timeouts": map[string]any{"call": "50ms"}, "breaker": map[string]any{"failures": 100000, "ratio": 1}, "concurrency": 32}},
	})
	var sent, answered atomic.Int64
	half, halfway := int64(*auditCalls/2), make(chan struct{})
	ways := []func(ctx context.Context, client *http.Client, url string, n int) bool{
		mixedCall("a__echo", `{"text":"hello"}`, 0),
		mixedCall("a__fail", `{}`, 0),                            // an error of the tool
		mixedCall("a__nothing", `{}`, 0),                         // unknown
		mixedCall("a__slow", `{}`, 0),                            // which times out
		mixedCall("a__slow", `{"cancel":1}`, 5*time.Millisecond), // whose client goes away
	}
	load := func(url string, calls int, killed <-chan struct{}) {
		client := newClient(t)
		var workers sync.WaitGroup
		var next atomic.Int64
		for range 8 {
			workers.Go(func() {
				for n := int(next.Add(1)); n <= calls; n = int(next.Add(1)) {
					select {
					case <-killed:
						return
					default:
					}
					if sent.Add(1) == half {
						close(halfway)
					}
					if ways[n%len(ways)](t.Context(), client, url, n) {
						answered.Add(1)
					}
				}
			})
		}
		workers.Wait()
	}
	p, url := h.up(t)
	killed := make(chan struct{})
	done := make(chan struct{})
	go func() { // ends with the load, which ends with the gateway
		defer close(done)
		load(url, *auditCalls, killed)
	}()
	select {
	case <-halfway:
	case <-time.After(10 * time.Minute):
		t.Fatal("half of the calls are not made in 10 minutes")
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	close(killed)
	<-done
	p.wait(t)
	before, atMost := answered.Load(), sent.Load()

	p, url = h.up(t)
	rest := *auditCalls - int(atMost)
	sent.Store(half) // which is not passed again
	load(url, max(rest, 10), nil)
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	files, err := audit.Files(h.stateFile(t, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	ends, unknown := make(map[string]int), 0
	outcomes := make(map[audit.Outcome]int)
	err = audit.Read(files, func(r *audit.Record) error {
		if r.Event == audit.EventEnd {
			ends[r.CallID]++
			outcomes[r.Outcome]++
			if r.Outcome == audit.OutcomeUnknown {
				unknown++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, n := range ends {
		if n != 1 {
			t.Errorf("the call %s has %d closed entries", id, n)
		}
	}
	// Whatever was answered is there, and what was sent at most: a call that was
	// killed before it began leaves nothing.
	second := sent.Load() - half
	if n := int64(len(ends)); n < before+second || n > atMost+second {
		t.Errorf("%d closed entries of %d to %d calls", n, before+second, atMost+second)
	}
	for _, o := range []audit.Outcome{audit.OutcomeOK, audit.OutcomeToolError, audit.OutcomeDenied, audit.OutcomeError, audit.OutcomeCancelled} {
		if outcomes[o] == 0 {
			t.Errorf("no call ended %s: %v", o, outcomes)
		}
	}
	if got := h.ok(t, "audit", "verify", "--file", h.file); !strings.Contains(got, "verified") || !strings.Contains(got, "open       0") {
		t.Errorf("verify: %s", got)
	}
	t.Logf("%d calls, %d of them unknown: %v", len(ends), unknown, outcomes)
}

// mixedCall makes one call of a tool and tells whether it was answered; a client
// that goes away does so after a while.
func mixedCall(name, args string, goes time.Duration) func(context.Context, *http.Client, string, int) bool {
	return func(ctx context.Context, client *http.Client, url string, n int) bool {
		if goes > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, goes)
			defer cancel()
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%q:%q,%q:{}}}}`,
			n, name, args, mcp.MetaVersion, mcp.LatestModern, mcp.MetaCapabilities)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", strings.NewReader(body))
		if err != nil {
			return false
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(mcp.HeaderVersion, string(mcp.LatestModern))
		r.Header.Set(mcp.HeaderMethod, mcp.MethodToolsCall)
		r.Header.Set(mcp.HeaderName, name)
		resp, err := client.Do(r)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err == nil
	}
}
