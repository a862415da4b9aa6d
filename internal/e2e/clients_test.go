//go:build e2e && unix

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// mcpClient is one client library with the transports it has in each era.
type mcpClient struct {
	name    string
	about   string // for the documentation
	program func() installed
	legacy  []string
	modern  []string
	run     func(context.Context, target) report
}

func none() installed       { return installed{} }
func nodeNeeded() installed { return lab.node }
func pyNeeded() installed   { return lab.python }

var everyTransport = []string{"http", "sse", "stdio"}

// HTTP+SSE ended with the legacy era.
var modernTransports = []string{"http", "stdio"}

var clients = []mcpClient{
	{"inspector", "Inspector, command line", nodeNeeded, everyTransport, modernTransports, runInspector},
	{"typescript-sdk-1", "TypeScript SDK, `@modelcontextprotocol/sdk`", nodeNeeded, everyTransport, nil, runNode("sdk_old.mjs")},
	{"typescript-sdk-2", "TypeScript SDK, `@modelcontextprotocol/client`", nodeNeeded, everyTransport, modernTransports, runNode("sdk_new.mjs")},
	{"python-sdk", "Python SDK, `mcp`", pyNeeded, everyTransport, modernTransports, runPython("sdk.py")},
	{"fastmcp", "FastMCP client, `fastmcp`", pyNeeded, everyTransport, modernTransports, runPython("fast.py")},
	{"go-sdk", "Go SDK, `github.com/modelcontextprotocol/go-sdk`", none, everyTransport, modernTransports, runGoSDK},
	{"mcp-go", "mcp-go, `github.com/mark3labs/mcp-go`", none, everyTransport, modernTransports, runMCPGo},
}

func (c *mcpClient) transports(era string) []string {
	if era == "modern" {
		return c.modern
	}
	return c.legacy
}

var eras = []string{"legacy", "modern"}

// labels names what one run creates, so that names differ in a server that several runs
// share.
var labels atomic.Int64

func newLabel(parts ...string) string {
	clean := strings.NewReplacer("-", "", "_", "").Replace(strings.Join(parts, ""))
	return fmt.Sprintf("%.12s%d", clean, labels.Add(1))
}

// forEachCell runs fn for every client, era and transport of that client, in parallel. fn
// gets a target with a label, but without an address.
func forEachCell(t *testing.T, fn func(t *testing.T, c mcpClient, cell target)) {
	for _, c := range clients {
		for _, era := range eras {
			for _, transport := range c.transports(era) {
				t.Run(c.name+"/"+era+"/"+transport, func(t *testing.T) {
					t.Parallel()
					if p := c.program(); p.err != nil {
						need(t, p)
					}
					fn(t, c, target{Transport: transport, Era: era, Label: newLabel(c.name)})
				})
			}
		}
	}
}

// verify runs the client, through toolgate or not, and fails t for everything wrong in
// its report.
func verify(t *testing.T, c mcpClient, to target, through bool) {
	t.Helper()
	r := c.run(t.Context(), to)
	for _, wrong := range judge(c.name, to, through, r) {
		t.Error(wrong)
	}
	if pinned := pinnedVersion(t, c.name); r.Version != "" && r.Version != pinned {
		t.Errorf("version %s is installed, %s is pinned", r.Version, pinned)
	}
	results.add(t.Name(), r)
}

// TestClientsDirect is the baseline: every client against the fixture, with nothing in
// between. If something fails here that is not in limits, the tests are wrong.
func TestClientsDirect(t *testing.T) {
	urls := map[string]string{}
	for _, era := range eras {
		urls[era] = fixtureProcess(t, era)
	}
	t.Run("cells", func(t *testing.T) {
		forEachCell(t, func(t *testing.T, c mcpClient, to target) {
			switch to.Transport {
			case "stdio":
				to.Command, to.Args = built(t, lab.fixture), []string{"-era", to.Era}
				to.Env = map[string]string{"PATH": "/usr/bin:/bin"}
			case "sse":
				to.URL = strings.TrimSuffix(urls[to.Era], "/mcp") + "/sse"
			default:
				to.URL = urls[to.Era]
			}
			verify(t, c, to, false)
		})
	})
}

// TestClients runs every client through toolgate, in front of a server of its own era.
// toolgate reaches the server over HTTP or starts it itself.
func TestClients(t *testing.T) {
	built(t, lab.toolgate)
	for _, upstream := range modernTransports {
		t.Run("upstream-"+upstream, func(t *testing.T) {
			gateways := map[string]*gateway{}
			entries := map[string]object{}
			for _, era := range eras {
				entries[era] = object{"fix": fixtureServer(t, upstream, era)}
				gateways[era] = startGateway(t, entries[era], nil, fixtureTools("fix")...)
			}
			t.Run("cells", func(t *testing.T) {
				forEachCell(t, func(t *testing.T, c mcpClient, to target) {
					switch to.Transport {
					case "stdio":
						s := newSetup(t, entries[to.Era], nil)
						from := s.stdio(t)
						if c.name == "inspector" {
							// The client starts a process for every command and asks
							// once, so it needs the list that an earlier process has
							// stored.
							s.warm(t, fixtureTools("fix")...)
						}
						to.Command, to.Args, to.Env = from.Command, from.Args, from.Env
					case "sse":
						to.URL = gateways[to.Era].sse
					default:
						to.URL = gateways[to.Era].mcp
					}
					verify(t, c, to, true)
				})
			})
		})
	}
}
