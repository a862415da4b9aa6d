//go:build !windows

package daemon_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// sharedServer are the settings of a server that gateways share.
func sharedServer(more ...string) map[string]any {
	settings := map[string]any{"isolation": "shared"}
	for _, name := range more {
		settings[name] = true
	}
	return map[string]any{"servers": map[string]any{"s": settings}}
}

const pidCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"s__pid","arguments":{}}}`

// process calls the tool that tells its process id at a gateway.
func (rs *replicas) process(t testing.TB, r *replica) string {
	t.Helper()
	got := post(t, r.url+"/mcp", "k", pidCall, mcp.HeaderSession, open(t, r.url, "k"))
	_, after, ok := strings.Cut(got.body, `"text":"`)
	if got.status != http.StatusOK || !ok {
		t.Fatalf("the process id: %d %s", got.status, got.body)
	}
	pid, _, _ := strings.Cut(after, `"`)
	return pid
}

// A server that all share runs at one gateway, whichever is asked.
func TestSharedServerRunsOnce(t *testing.T) {
	rs := newReplicas(t, 3, servers{"s": fake()}, sharedServer())
	testwait.Until(t, patience, "one process is left", func() bool {
		pid := rs.process(t, rs.all[0])
		return rs.process(t, rs.all[1]) == pid && rs.process(t, rs.all[2]) == pid
	})
	for _, r := range rs.all {
		at := ""
		for _, row := range r.Control.Servers() {
			at += row.Gateway
		}
		fmt.Println(at)
	}
}

// While the gateways end one after the other, every call is answered.
func TestSharedServerMoves(t *testing.T) {
	for _, more := range [][]string{nil, {"exclusive"}} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			rs := newReplicas(t, 3, servers{"s": fake()}, sharedServer(more...))
			first := rs.process(t, rs.all[2])
			last := rs.all[2]
			session := open(t, last.url, "k")
			var ended atomic.Bool
			var calls sync.WaitGroup
			n := 0
			calls.Go(func() {
				for ; !ended.Load(); n++ {
					if got := post(t, last.url+"/mcp", "k", pidCall, mcp.HeaderSession, session); got.status != http.StatusOK || !strings.Contains(got.body, `"result"`) {
						t.Errorf("call %d: %d %s", n, got.status, got.body)
						return
					}
				}
			})
			rs.end(t, rs.all[0])
			rs.end(t, rs.all[1])
			ended.Store(true)
			calls.Wait()
			t.Logf("%d calls, process %s and then %s", n, first, rs.process(t, last))
		})
	}
}
