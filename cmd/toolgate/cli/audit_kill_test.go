//go:build e2e && !windows

package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/raced"
	"github.com/toolgate/toolgate/internal/testwait"
)

var auditKills = flag.Int("audit-kills", raced.Times(16, 8), "how often a gateway is killed under load, in each fsync mode of the audit log")

// noted are names of calls that somebody saw.
type noted struct {
	mu    sync.Mutex
	names map[string]bool
}

func newNoted() *noted { return &noted{names: make(map[string]bool)} }

func (n *noted) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = true
}

func (n *noted) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.names)
}

// witnessed is an MCP server that notes which calls reach it: each names itself.
func witnessed(t *testing.T) (url string, calls *noted) {
	t.Helper()
	calls = newNoted()
	type arguments struct {
		ID string `json:"id"`
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "witness", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "note"}, func(_ context.Context, _ *sdk.CallToolRequest, a arguments) (*sdk.CallToolResult, any, error) {
		calls.add(a.ID)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "noted"}}}, nil, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	t.Cleanup(web.Close)
	return web.URL, calls
}

// callers make calls until their gateway is killed, and note by the names of the calls
// which were answered and which were refused.
type callers struct {
	client            *http.Client
	url               string
	answered, refused *noted
}

// refusedTool is what the names of tools begin with that nobody offers.
const refusedTool = "api__no_"

// call makes one call, of a tool that is there or that is not.
func (c *callers) call(ctx context.Context, id string, there bool) error {
	tool := "api__note"
	if !there {
		tool = refusedTool + id
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"id":%q},"_meta":{%q:%q,%q:{}}}}`,
		tool, id, mcp.MetaVersion, mcp.LatestModern, mcp.MetaCapabilities)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/mcp", strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		mcp.HeaderVersion: string(mcp.LatestModern), mcp.HeaderMethod: mcp.MethodToolsCall, mcp.HeaderName: tool,
	} {
		r.Header.Set(name, value)
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case there && bytes.Contains(answer, []byte(`"text":"noted"`)):
		c.answered.add(id)
	case !there && bytes.Contains(answer, []byte(`"error":`)):
		c.refused.add(id)
	default:
		return fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return nil
}

// A gateway that has to keep a record is killed again and again, at any moment of its
// start and of its work. Afterwards every call that its server has seen has begun on
// record and ended once, every refusal that a client has seen is there, and nothing
// looks changed. How a call ended is known for each that was answered with `always`.
func TestKilledGatewayHasRecordedWhatItDelivered(t *testing.T) {
	const inFlight = 8
	for _, fsync := range []string{"interval", "always", "never"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			url, delivered := witnessed(t)
			h := newHome(t)
			h.write(t, servers{"api": {"type": "http", "url": url}}, map[string]any{
				"audit":   map[string]any{"mode": "required", "fsync": fsync, "rotate_size": "256KiB", "fields": map[string]any{"*": []string{"/id"}}},
				"servers": map[string]any{"api": map[string]any{"concurrency": 64}},
			})
			c := &callers{client: newClient(t), answered: newNoted(), refused: newNoted()}
			for kill := range *auditKills {
				if kill%8 == 7 { // while it starts
					p := h.start(t, "up", h.file)
					<-time.After(time.Duration(rand.IntN(200)) * time.Millisecond)
					p.stop(t, syscall.SIGKILL)
					continue
				}
				p, at := h.up(t)
				c.url = at
				var all sync.WaitGroup
				for i := range inFlight {
					all.Go(func() {
						for n := 0; ; n++ {
							if err := c.call(t.Context(), fmt.Sprintf("%d-%d-%d", kill, i, n), n%4 != 3); err != nil {
								return // killed
							}
						}
					})
				}
				enough := delivered.count() + 1 + rand.IntN(60)
				testwait.Until(t, patience, "calls", func() bool { return delivered.count() >= enough })
				if code := p.stop(t, syscall.SIGKILL); code == 0 {
					t.Error("it ended by itself")
				}
				all.Wait()
			}
			p, _ := h.up(t)
			if code := p.stop(t, syscall.SIGTERM); code != exitOK {
				t.Errorf("exit code %d", code)
			}
			c.account(t, h, delivered, fsync == "always", *auditKills*inFlight)
		})
	}
}

// account holds the record of a gateway to what its server and its clients saw. At
// most so many calls may be there besides.
func (c *callers) account(t *testing.T, h *home, delivered *noted, always bool, most int) {
	t.Helper()
	files, err := audit.Files(h.stateFile(t, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	began, ends, outcome := make(map[string]string), make(map[string]int), make(map[string]audit.Outcome)
	denied := make(map[string]bool)
	err = audit.Read(files, func(r *audit.Record) error {
		switch r.Event {
		case audit.EventBegin:
			for _, f := range r.Fields {
				if began[f.Value] != "" {
					t.Errorf("the call %s began twice", f.Value)
				}
				began[f.Value] = r.CallID
			}
		case audit.EventEnd:
			ends[r.CallID]++
			outcome[r.CallID] = r.Outcome
			if id, is := strings.CutPrefix(r.Name, refusedTool); is && r.Outcome == audit.OutcomeDenied {
				denied[id] = true
			}
		case audit.EventChange: // nobody makes any
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	unknown := 0
	for name, id := range began {
		if ends[id] != 1 {
			t.Errorf("the call %s began, and ended %d times", name, ends[id])
		}
		if outcome[id] == audit.OutcomeUnknown {
			unknown++
		}
	}
	missing := 0
	for name := range delivered.names {
		if began[name] == "" {
			missing++
		}
	}
	for name := range c.refused.names {
		if !denied[name] {
			missing++
		}
	}
	for id, n := range ends {
		if n != 1 {
			t.Errorf("the call %s ended %d times", id, n)
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d calls that were delivered and %d that were refused are not on record", missing, len(delivered.names), len(c.refused.names))
	}
	for name := range c.answered.names {
		if how := outcome[began[name]]; how != audit.OutcomeOK && (always || how != audit.OutcomeUnknown) {
			t.Errorf("the call %s was answered, and ended %q", name, how)
		}
	}
	if more := len(ends) - len(delivered.names) - len(c.refused.names); more < 0 || more > most {
		t.Errorf("%d calls are on record that nobody has seen, of at most %d", more, most)
	}
	if got := h.ok(t, "audit", "verify", "--file", h.file); !strings.Contains(got, "verified") || !strings.Contains(got, "open       0") {
		t.Errorf("verify: %s", got)
	}
	t.Logf("%d delivered, %d answered, %d refused, %d ended nobody knows how", len(delivered.names), len(c.answered.names), len(c.refused.names), unknown)
}
