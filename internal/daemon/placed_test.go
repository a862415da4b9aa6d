//go:build !windows

package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/raced"
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

var pidText = regexp.MustCompile(`"text":"(\d+)"`)

// process calls the tool that tells its process id at a gateway.
func (rs *replicas) process(t testing.TB, r *replica) string {
	t.Helper()
	got := post(t, r.url+"/mcp", "k", pidCall, mcp.HeaderSession, open(t, r.url, "k"))
	pid := pidText.FindStringSubmatch(got.body)
	if pid == nil {
		t.Fatalf("the process id: %d %s", got.status, got.body)
	}
	return pid[1]
}

// at returns the gateway that runs the server, as each gateway says.
func (rs *replicas) at() (at []string) {
	for _, r := range rs.all {
		if r.gone {
			continue
		}
		for _, row := range r.Control.Servers() {
			at = append(at, row.Gateway)
		}
	}
	return slices.Compact(at)
}

// A server that all share runs at one gateway, and that one is where it belongs: a gateway
// that joins may take it over. Once all know one another and say that nothing moves, it runs
// nowhere else.
func TestSharedServerRunsOnce(t *testing.T) {
	t.Parallel()
	rs := newReplicas(t, 3, servers{"s": fake()}, sharedServer())
	testwait.Until(t, patience, "nothing moves, and all say the same place", func() bool {
		for _, r := range rs.all {
			if slices.ContainsFunc(r.Control.Servers(), func(s admin.Server) bool { return s.Moving }) {
				return false
			}
		}
		at := rs.at()
		return len(at) == 1 && at[0] != ""
	})
	want := rs.process(t, rs.all[0])
	for _, r := range rs.all {
		if got := rs.process(t, r); got != want {
			t.Errorf("process %s, want that of all, %s", got, want)
		}
	}
	if len(rs.all[1].Control.Servers()) != 1 {
		t.Errorf("%+v", rs.all[1].Control.Servers())
	}
}

// callPause is how long a client rests between its calls while a server moves.
var callPause = time.Duration(raced.Times(0, 2)) * time.Millisecond

// While the gateways end one after the other, the server moves and every call is answered.
// One that must not run twice never does.
func TestSharedServerMoves(t *testing.T) {
	t.Parallel()
	for _, more := range [][]string{nil, {"exclusive"}} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			t.Parallel()
			lock := filepath.Join(t.TempDir(), "lock")
			server := fake()
			if more != nil {
				server = fake("alone=" + lock)
			}
			rs := newReplicas(t, 3, servers{"s": server}, sharedServer(more...), map[string]any{"limits": map[string]any{"identical_calls": 0}})
			last := rs.all[2]
			session := open(t, last.url, "k")
			processes := map[string]int{}
			begun, end := make(chan struct{}), make(chan struct{})
			var calls sync.WaitGroup
			calls.Go(func() {
				for n := 0; ; n++ {
					got := post(t, last.url+"/mcp", "k", pidCall, mcp.HeaderSession, session)
					pid := pidText.FindStringSubmatch(got.body)
					if pid == nil {
						t.Errorf("call %d: %d %s", n, got.status, got.body)
					} else {
						processes[pid[1]]++
					}
					if n == 0 {
						close(begun)
					}
					select {
					case <-end:
						return
					case <-time.After(callPause):
					}
				}
			})
			<-begun
			rs.end(t, rs.all[0])
			rs.end(t, rs.all[1])
			close(end)
			calls.Wait()
			for _, m := range last.Control.Replicas() {
				if at := rs.at(); m.Self && !slices.Equal(at, []string{m.ID}) {
					t.Errorf("it runs at %v", at)
				}
			}
			if text, err := os.ReadFile(lock + ".twice"); err == nil {
				t.Errorf("it ran twice: %s", text)
			}
			t.Logf("calls by process: %v", processes)
		})
	}
}

// A server that must not run twice does not, either, when it is started anew.
func TestSharedServerStartsAnew(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "lock")
	rs := newReplicas(t, 2, servers{"s": fake("alone=" + lock)}, sharedServer("exclusive"))
	before := rs.process(t, rs.all[0])
	for _, r := range rs.all {
		if err := r.Control.RestartServer("s"); err != nil {
			t.Fatal(err)
		}
	}
	testwait.Until(t, patience, "another process is there", func() bool {
		got := post(t, rs.all[1].url+"/mcp", "k", pidCall, mcp.HeaderSession, open(t, rs.all[1].url, "k"))
		pid := pidText.FindStringSubmatch(got.body)
		return pid != nil && pid[1] != before
	})
	if text, err := os.ReadFile(lock + ".twice"); err == nil {
		t.Errorf("it ran twice: %s", text)
	}
}
