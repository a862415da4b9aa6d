//go:build e2e && !windows

package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/testwait"
)

// How often the gateway is killed that runs a shared server; `make soak` does it more often.
var sharedKills = flag.Int("shared-kills", 2, "how often the gateway of a shared server is killed under load")

// runsAt returns which gateway of the fleet runs a server; -1 if nobody says.
func (f *fleet) runsAt(t *testing.T, server string) int {
	t.Helper()
	for i, h := range f.homes {
		var status struct {
			Servers  []admin.Server
			Replicas []admin.Replica
		}
		for _, args := range [][]string{{"ls"}, {"status", "--all"}} {
			if err := json.Unmarshal([]byte(h.ok(t, append(args, "-o", "json", "--file", h.file)...)), &status); err != nil {
				t.Fatal(err)
			}
		}
		for _, row := range status.Servers {
			for _, m := range status.Replicas {
				if row.Name == server && m.ID == row.Gateway && m.Self {
					return i
				}
			}
		}
	}
	return -1
}

// The gateway that runs servers for all of them is killed under load. They run elsewhere then, and
// one that must not run twice never does.
func TestSharedServerOfAKilledGateway(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	f := newFleet(t, postgres.URL(t), servers{"s": fake(), "x": fake("alone=" + lock)}, map[string]any{
		"limits":  map[string]any{"identical_calls": 0},
		"servers": map[string]any{"s": map[string]any{"isolation": "shared"}, "x": map[string]any{"isolation": "shared", "exclusive": true}},
	}, func(int, *home) {})
	answers := func(server string) bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		const ids = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		status, _, answer, err := send(ctx, http.DefaultClient, f.balancer, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s__pid","arguments":{},%s}}`, server, ids), func([]byte) {},
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", server+"__pid")
		return err == nil && status == http.StatusOK && strings.Contains(string(answer), `"content"`)
	}
	for _, server := range []string{"s", "x"} {
		testwait.Until(t, patience, server+" answers", func() bool { return answers(server) })
	}
	for kill := range *sharedKills {
		server, at := []string{"s", "x"}[kill%2], -1
		testwait.Until(t, patience, "a gateway runs "+server, func() bool { at = f.runsAt(t, server); return at >= 0 })
		var callers sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
						answers("s") // what it answers while its gateway dies is not the point
						answers("x")
					}
				}
			})
		}
		f.kill(t, at)
		for _, server := range []string{"s", "x"} { // one that must not run twice rests for 20 seconds
			testwait.Until(t, 3*patience, server+" answers again", func() bool { return answers(server) })
		}
		close(stop)
		callers.Wait()
		t.Logf("kill %d: %s ran at gateway %d, and then at %d", kill, server, at, f.runsAt(t, server))
	}
	if _, err := os.Stat(lock + ".twice"); err == nil {
		t.Error("what must not run twice did")
	}
}
