//go:build e2e && !windows

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
	"github.com/toolgate/toolgate/internal/raced"
	"github.com/toolgate/toolgate/internal/testbalancer"
	"github.com/toolgate/toolgate/internal/testport"
)

// What the test of chaos does; `make soak` does it for 20 minutes.
var (
	chaosFaults = flag.Int("chaos-faults", 8, "how often something happens to three gateways under load")
	chaosCalls  = flag.Int("chaos-calls", 100, "how many calls are answered before something happens to them")
	chaosPause  = flag.Duration("chaos-pause", time.Duration(raced.Times(0, 2))*time.Millisecond, "how long each client rests between its calls")
	chaosClocks = flag.Bool("chaos-clocks", false, "whether the clocks of the gateways are minutes apart; it compiles the program anew")
)

// chaosWorkers is how many clients of each era call all the time.
const chaosWorkers = 4

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
	sdk.AddTool(server, &sdk.Tool{Name: "once"}, func(ctx context.Context, r *sdk.CallToolRequest, a in) (*sdk.CallToolResult, any, error) {
		o.mu.Lock()
		o.ran[a.Key]++
		o.mu.Unlock()
		if token := r.Params.GetProgressToken(); token != nil {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Message: "does " + a.Key, Progress: 1})
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "did " + a.Key}}}, nil, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	return o, web.URL
}

// fleet are three gateways behind a load balancer that takes each request to the next that
// listens.
type fleet struct {
	homes    []*home
	balancer string
	wires    *wires

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

// newFleet starts three gateways that share a database. made may change each of them before.
func newFleet(t *testing.T, database string, s servers, settings map[string]any, made func(i int, h *home)) *fleet {
	t.Helper()
	f := &fleet{open: make([]int, 3)}
	f.wires = newWires(t, f)
	shared := newHome(t).sharing(t, database)
	for i := range 3 {
		h := newHome(t)
		section := maps.Clone(settings)
		maps.Copy(section, shared)
		section["listen"] = map[string]any{"metrics": "", "console": ""}
		listen := testport.Address(t)
		section["cluster"] = map[string]any{"advertise": f.wires.to(t, i, listen), "listen": listen}
		h.write(t, s, section)
		made(i, h)
		p, url := h.up(t)
		f.mu.Lock()
		f.homes, f.all, f.at = append(f.homes, h), append(f.all, p), append(f.at, strings.TrimPrefix(url, "http://"))
		f.mu.Unlock()
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

// hears checks what the client of a call is told meanwhile: the progress of this call alone.
func (o *outcomes) hears(key string) func(text []byte) {
	return func(text []byte) {
		if bytes.Contains(text, []byte(`"does `)) && !bytes.Contains(text, []byte(`"does `+key+`"`)) {
			o.fail("the client of %s hears %s", key, text)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.count["heard"]++
	}
}

// send sends a message and returns the status and the JSON-RPC answer, also that of a stream.
// told is called with each notification.
func send(ctx context.Context, client *http.Client, url, body string, told func(text []byte), headers ...string) (status int, session string, answer []byte, err error) {
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
			switch data, ok := bytes.CutPrefix(line, []byte("data: ")); {
			case ok && bytes.Contains(data, []byte(`"method":`)):
				told(data)
			case ok:
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
	case a.Error.Data.Kind == "budget_unavailable": // the database was away, and may have charged it
		o.note(key, "refused")
	case a.Error.Data.Kind == "gateway_lost" && a.Error.Data.MayHaveRun:
		o.note(key, "perhaps")
	case a.Error.Data.Kind == "gateway_lost":
		o.note(key, "not sent")
	default:
		o.fail("%s: status %d, %s", key, status, answer)
	}
	return true
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

// answers waits until some calls more are answered. A busy machine may take long for all of them,
// and not for one.
func (f *fleet) answers(t *testing.T, o *outcomes, answered *atomic.Int64) {
	t.Helper()
	before := answered.Load()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for last := before; last < before+int64(*chaosCalls); {
		select {
		case <-deadline.C:
			o.mu.Lock()
			defer o.mu.Unlock()
			t.Fatalf("%d calls are answered, and then none in %v: %v %v", last-before, patience, o.count, o.bad)
		case <-time.After(10 * time.Millisecond):
		}
		if n := answered.Load(); n > last {
			last = n
			deadline.Reset(patience)
		}
	}
}

// legacy calls in one session until ctx ends.
func (f *fleet) legacy(ctx context.Context, client *http.Client, o *outcomes, name string, answered *atomic.Int64) {
	_, session, answer, err := send(ctx, client, f.balancer, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, func([]byte) {})
	if session == "" {
		o.fail("%s: initialize: %s, %v", name, answer, err)
		return
	}
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprint(name, "-", n)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"api__once","arguments":{"key":%q},"_meta":{"progressToken":%d}}}`, n+2, key, n%3)
		status, _, answer, err := send(context.WithoutCancel(ctx), client, f.balancer, body, o.hears(key), mcp.HeaderSession, session)
		if !o.judge(key, status, answer, err) {
			return
		}
		answered.Add(1)
		<-time.After(*chaosPause)
	}
}

// modern calls without a session until ctx ends.
func (f *fleet) modern(ctx context.Context, client *http.Client, o *outcomes, name string, answered *atomic.Int64) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprint(name, "-", n)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"api__once","arguments":{"key":%q},"_meta":{"progressToken":1,%q:%q,%q:{}}}}`, key, mcp.MetaVersion, mcp.LatestModern, mcp.MetaCapabilities)
		status, _, answer, err := send(context.WithoutCancel(ctx), client, f.balancer, body, o.hears(key),
			mcp.HeaderVersion, string(mcp.LatestModern), mcp.HeaderMethod, "tools/call", mcp.HeaderName, "api__once")
		o.judge(key, status, answer, err)
		answered.Add(1)
		<-time.After(*chaosPause)
	}
}
