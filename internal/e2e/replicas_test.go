//go:build e2e && unix

package e2e

import (
	"context"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testbalancer"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// startReplicas is startGateway for three gateways that share a database, behind a load
// balancer that takes each request to the next of them over a connection of its own.
func startReplicas(t *testing.T, db *storetest.Server, servers, toolgate object, want ...string) *gateway {
	t.Helper()
	key := filepath.Join(t.TempDir(), "seal.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	database := db.URL(t)
	var at []string
	var first *gateway
	for range 3 {
		own := object{
			"store": database, "cluster": object{"advertise": testport.Address(t)}, "keys": []any{object{"id": "k", "file": key}},
			"listen": object{"metrics": ""},
		}
		maps.Copy(own, toolgate)
		g := startGateway(t, servers, own, want...)
		u, err := url.Parse(g.mcp)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, u.Host)
		if first == nil {
			first = g
		}
	}
	var next atomic.Int64
	balancer, end := testbalancer.Start(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", at[int(next.Add(1))%len(at)])
	})
	t.Cleanup(end)
	all := &gateway{setup: first.setup, proc: first.proc, mcp: balancer + "/mcp", sse: balancer + "/sse"}
	session := &raw{url: all.mcp}
	testwait.Until(t, startTimeout, "the gateways know one another", func() bool {
		for range at { // a session is found wherever a request arrives
			if names, err := session.toolNames(t.Context()); err != nil || !containsAll(names, want) {
				return false
			}
		}
		return true
	})
	return all
}

// TestConformanceOfReplicas runs the official suite through three gateways. It finds what it
// finds with one.
func TestConformanceOfReplicas(t *testing.T) {
	need(t, lab.node)
	built(t, lab.toolgate)
	db := storetest.StartPostgres(t)
	t.Run("cells", func(t *testing.T) {
		for _, placement := range placements[:2] { // a process of each gateway has its own state
			t.Run(placement.name, func(t *testing.T) {
				t.Parallel()
				servers, options := everything(t, placement.name, placement.era)
				g := startReplicas(t, db, servers, options, "test_simple_text")
				for _, set := range requirementSets {
					cell := set.revision + "-" + placement.name
					r, known := runSuite(t.Context(), t, g.mcp, set.revision), expectedFailures(t, cell)
					for _, name := range slices.Sorted(maps.Keys(r.Scenarios)) {
						if s := r.Scenarios[name]; s.Scored && !s.ok() && !slices.Contains(known, name) {
							t.Errorf("%s: %s fails, and does not with one gateway:\n  %s", cell, name, strings.Join(s.Wrong, "\n  "))
						}
					}
					t.Logf("%s: %d checks passed, %d failed", cell, r.Passed, r.Failed)
				}
			})
		}
	})
}

// TestClientsOfReplicas runs every client of HTTP through three gateways.
func TestClientsOfReplicas(t *testing.T) {
	built(t, lab.toolgate)
	db := storetest.StartPostgres(t)
	gateways := map[string]*gateway{}
	for _, era := range eras {
		gateways[era] = startReplicas(t, db, object{"fix": fixtureServer(t, "http", era)}, nil, fixtureTools("fix")...)
	}
	t.Run("cells", func(t *testing.T) {
		forEachCell(t, func(t *testing.T, c mcpClient, to target) {
			switch to.Transport {
			case "stdio":
				return // a process belongs to one gateway
			case "sse":
				to.URL = gateways[to.Era].sse
			default:
				to.URL = gateways[to.Era].mcp
			}
			verify(t, c, to, true)
		})
	})
}
