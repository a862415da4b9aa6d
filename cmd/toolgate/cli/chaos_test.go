//go:build !windows

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testbalancer"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// What the test of chaos does; `make soak` does it for 20 minutes.
var chaosKills = flag.Int("chaos-kills", 3, "how often one of three gateways is killed under load")

const (
	// chaosWorkers is how many clients of each era call all the time.
	chaosWorkers = 4
	// chaosCalls is how many calls are answered between two kills.
	chaosCalls = 300
)

// once is a tool that says what it was called with. It counts how often each argument came:
// a call of it may not be sent twice.
type once struct {
	mu  sync.Mutex
	ran map[string]int
}

// newOnce starts a server with the tool.
func newOnce(t *testing.T) (o *once, url string) {
	t.Helper()
	o = &once{ran: map[string]int{}}
	server := sdk.NewServer(&sdk.Implementation{Name: "once", Version: "1"}, nil)
	type in struct {
		Key string `json:"key"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "once"}, func(_ context.Context, _ *sdk.CallToolRequest, a in) (*sdk.CallToolResult, any, error) {
		o.mu.Lock()
		o.ran[a.Key]++
		o.mu.Unlock()
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "did " + a.Key}}}, nil, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	t.Cleanup(web.Close)
	return o, web.URL
}

// fleet are three gateways behind a load balancer that takes each request to the next that
// listens.
type fleet struct {
	homes    []*home
	balancer string

	mu   sync.Mutex
	all  []*process
	at   []string // where each listens for clients
	open []int    // connections of the load balancer to each
	next int
}

// balanced is a connection of the load balancer.
type balanced struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (b balanced) Close() error {
	b.closed()
	return b.Conn.Close()
}

func newFleet(t *testing.T, s servers, settings map[string]any) *fleet {
	t.Helper()
	f := &fleet{open: make([]int, 3)}
	shared := newHome(t).sharing(t, postgres.URL(t))
	for range 3 {
		h := newHome(t)
		section := maps.Clone(settings)
		maps.Copy(section, shared)
		section["listen"] = map[string]any{"metrics": "", "console": ""}
		section["cluster"] = map[string]any{"advertise": testport.Address(t)}
		h.write(t, s, section)
		p, url := h.up(t)
		f.homes, f.all, f.at = append(f.homes, h), append(f.all, p), append(f.at, strings.TrimPrefix(url, "http://"))
	}
	var end func()
	f.balancer, end = testbalancer.Start(func(ctx context.Context) (net.Conn, error) {
		for range f.homes {
			i, to := f.choose()
			closed := sync.OnceFunc(func() { f.count(i, -1) })
			if to == "" {
				closed()
				continue
			}
			c, err := new(net.Dialer).DialContext(ctx, "tcp", to)
			if err == nil {
				return balanced{c, closed}, nil
			}
			closed()
		}
		return nil, errors.New("no gateway listens")
	})
	t.Cleanup(end)
	return f
}

// kill kills one of the gateways and starts it again.
func (f *fleet) kill(t *testing.T, i int) {
	t.Helper()
	if err := f.all[i].cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.all[i].wait(t)
	p, url := f.homes[i].up(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i], f.at[i] = p, strings.TrimPrefix(url, "http://")
}

// choose returns the next gateway in turn, whose connection counts from now on.
func (f *fleet) choose() (i int, at string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	i = f.next % len(f.at)
	f.open[i]++
	return i, f.at[i]
}

// count changes the connections to a gateway.
func (f *fleet) count(i, by int) (now int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[i] += by
	return f.open[i]
}

// roll takes a gateway out of the load balancer, tells it to end, and starts it again.
func (f *fleet) roll(t *testing.T, i int) {
	t.Helper()
	f.mu.Lock()
	f.at[i] = ""
	f.mu.Unlock()
	testwait.Until(t, patience, "the load balancer has left the gateway", func() bool { return f.count(i, 0) == 0 })
	if code := f.all[i].stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("gateway %d ends with %d", i, code)
	}
	p, url := f.homes[i].up(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i], f.at[i] = p, strings.TrimPrefix(url, "http://")
}

// outcomes counts what became of calls.
type outcomes struct {
	mu    sync.Mutex
	of    map[string]string // by key
	count map[string]int
	bad   []string
}

func (o *outcomes) note(key, how string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of[key] = how
	o.count[how]++
}

func (o *outcomes) fail(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.bad) < 20 {
		o.bad = append(o.bad, fmt.Sprintf(format, args...))
	}
}

// send sends a message and returns the status and the JSON-RPC answer, also that of a stream.
func send(ctx context.Context, client *http.Client, url, body string, headers ...string) (status int, session string, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range bytes.Lines(text) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && !bytes.Contains(data, []byte(`"method":`)) {
				answer = data
			}
		}
		return resp.StatusCode, "", answer, err
	}
	return resp.StatusCode, resp.Header.Get(mcp.HeaderSession), text, err
}

// judge notes what became of the call with a key. It reports whether the session is still
// there.
func (o *outcomes) judge(key string, status int, answer []byte, err error) bool {
	var a struct {
		Result struct{ Content []struct{ Text string } }
		Error  struct {
			Data struct {
				Kind       string
				MayHaveRun bool `json:"may_have_run"`
			}
		}
	}
	switch {
	case err != nil || status == http.StatusBadGateway: // the gateway that the load balancer had chosen was killed
		o.note(key, "broken")
	case status == http.StatusNotFound:
		o.fail("%s: its session is gone: %s", key, answer)
		return false
	case len(answer) == 0:
		o.note(key, "broken")
	case json.Unmarshal(answer, &a) != nil:
		o.fail("%s: status %d, %q", key, status, answer)
	case len(a.Result.Content) == 1 && a.Result.Content[0].Text == "did "+key:
		o.note(key, "answered")
	case a.Error.Data.Kind == "gateway_lost" && a.Error.Data.MayHaveRun:
		o.note(key, "perhaps")
	case a.Error.Data.Kind == "gateway_lost":
		o.note(key, "not sent")
	default:
		o.fail("%s: status %d, %s", key, status, answer)
	}
	return true
}

// A gateway of three is killed again and again while clients of both eras call. No session is
// lost, no call runs twice, each answer is that of its own call, what ran is charged, and the
// audit logs hold.
func TestChaos(t *testing.T) {
	tool, url := newOnce(t)
	f := newFleet(t, servers{"api": {"type": "http", "url": url}}, map[string]any{
		"budgets": []any{map[string]any{"name": "total", "per": "tenant", "limit": 100_000_000, "window": "month"}},
		"servers": map[string]any{"api": map[string]any{"concurrency": 64}},
	})
	order := rand.New(rand.NewPCG(1, uint64(*chaosKills)))
	o := f.underLoad(t, *chaosKills, func() { f.kill(t, order.IntN(3)) })
	tool.mu.Lock()
	defer tool.mu.Unlock()
	for key, n := range tool.ran {
		if n > 1 {
			t.Errorf("the call %s ran %d times", key, n)
		}
		if o.of[key] == "not sent" {
			t.Errorf("the client of %s was told that it has not run", key)
		}
	}
	for key, how := range o.of {
		if how == "answered" && tool.ran[key] != 1 {
			t.Errorf("the call %s was answered, and ran %d times", key, tool.ran[key])
		}
	}
	uses := f.homes[0].uses(t)
	most := int64(len(tool.ran) + o.count["perhaps"] + o.count["broken"] + 2*chaosWorkers)
	if len(uses) != 1 || uses[0].Used < int64(len(tool.ran)) || uses[0].Used > most {
		t.Errorf("charged %+v, %d calls have run, and at most %d", uses, len(tool.ran), most)
	}
	for i, h := range f.homes {
		if code := f.all[i].stop(t, syscall.SIGTERM); code != 0 {
			t.Errorf("gateway %d ends with %d", i, code)
		}
		if got := h.ok(t, "audit", "verify", "--file", h.file); !strings.Contains(got, "verified") {
			t.Errorf("the audit log of gateway %d: %s", i, got)
		}
	}
	t.Logf("%d kills: %v", *chaosKills, o.count)
}

// Gateways are taken out of the load balancer, drained and started anew, one after the other.
// Every call is answered.
func TestRolling(t *testing.T) {
	tool, url := newOnce(t)
	f := newFleet(t, servers{"api": {"type": "http", "url": url}}, map[string]any{
		"servers": map[string]any{"api": map[string]any{"concurrency": 64}},
	})
	i := 0
	o := f.underLoad(t, 3, func() {
		f.roll(t, i)
		i++
	})
	tool.mu.Lock()
	defer tool.mu.Unlock()
	if o.count["answered"] != len(o.of) || len(tool.ran) != len(o.of) {
		t.Errorf("%v of %d calls, and %d have run", o.count, len(o.of), len(tool.ran))
	}
	t.Logf("%v", o.count)
}

// underLoad has clients of both eras call all the time, while something happens some times.
func (f *fleet) underLoad(t *testing.T, times int, happens func()) *outcomes {
	t.Helper()
	o := &outcomes{of: map[string]string{}, count: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	var answered atomic.Int64
	for i := range 2 * chaosWorkers {
		client := newClient(t)
		work := f.modern
		if i%2 == 0 {
			work = f.legacy
		}
		workers.Go(func() { work(ctx, client, o, fmt.Sprint("w", i), &answered) })
	}
	for range times {
		f.answers(t, o, &answered)
		happens()
	}
	f.answers(t, o, &answered)
	stop()
	workers.Wait()
	for _, bad := range o.bad {
		t.Error(bad)
	}
	return o
}

// answers waits until some calls more are answered.
func (f *fleet) answers(t *testing.T, o *outcomes, answered *atomic.Int64) {
	t.Helper()
	before := answered.Load()
	for deadline := time.After(patience); answered.Load() < before+chaosCalls; {
		select {
		case <-deadline:
			o.mu.Lock()
			defer o.mu.Unlock()
			t.Fatalf("%d calls are answered in %v: %v %v", answered.Load()-before, patience, o.count, o.bad)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// legacy calls in one session until ctx ends.
func (f *fleet) legacy(ctx context.Context, client *http.Client, o *outcomes, name string, answered *atomic.Int64) {
	_, session, answer, err := send(ctx, client, f.balancer, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if session == "" {
		o.fail("%s: initialize: %s, %v", name, answer, err)
		return
	}
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprint(name, "-", n)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"api__once","arguments":{"key":%q}}}`, n+2, key)
		status, _, answer, err := send(context.WithoutCancel(ctx), client, f.balancer, body, mcp.HeaderSession, session)
		if !o.judge(key, status, answer, err) {
			return
		}
		answered.Add(1)
	}
}

// modern calls without a session until ctx ends.
func (f *fleet) modern(ctx context.Context, client *http.Client, o *outcomes, name string, answered *atomic.Int64) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprint(name, "-", n)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"api__once","arguments":{"key":%q},"_meta":{%q:%q,%q:{}}}}`, key, mcp.MetaVersion, mcp.LatestModern, mcp.MetaCapabilities)
		status, _, answer, err := send(context.WithoutCancel(ctx), client, f.balancer, body,
			mcp.HeaderVersion, string(mcp.LatestModern), mcp.HeaderMethod, "tools/call", mcp.HeaderName, "api__once")
		o.judge(key, status, answer, err)
		answered.Add(1)
	}
}
