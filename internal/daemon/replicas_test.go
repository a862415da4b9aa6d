//go:build !windows

package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testbalancer"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// replicas are gateways that share a database, behind a load balancer that knows nothing of
// sessions.
type replicas struct {
	balancer string // URL
	all      []*replica

	mu   sync.Mutex
	next int
}

type replica struct {
	*running
	url  string
	stop func() // its listener for clients
	gone bool
}

// newReplicas starts n gateways with the same servers, and waits until they know one
// another.
func newReplicas(t testing.TB, n int, s servers, more ...map[string]any) *replicas {
	t.Helper()
	database, seal := postgres.URL(t), newHome(t).path("seal.key")
	if err := os.WriteFile(seal, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	rs := &replicas{}
	for range n {
		h := newHome(t)
		settings := withKeys("k", "other")
		settings["store"], settings["cluster"] = database, map[string]any{"advertise": testport.Address(t)}
		settings["keys"] = []any{map[string]any{"id": "k", "file": seal}}
		for _, m := range more {
			maps.Copy(settings, m)
		}
		h.write(t, s, settings)
		r := &replica{running: h.newRunning(t)}
		r.settle(t)
		web := httptest.NewServer(r.Daemon.Handler())
		r.url, r.stop = web.URL, sync.OnceFunc(func() {
			web.CloseClientConnections()
			web.Close()
		})
		t.Cleanup(r.stop)
		rs.all = append(rs.all, r)
	}
	rs.know(t, n)
	var end func()
	rs.balancer, end = testbalancer.Start(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", rs.pick())
	})
	t.Cleanup(end)
	return rs
}

// know waits until the gateways that are there know n of them.
func (rs *replicas) know(t testing.TB, n int) {
	t.Helper()
	for _, r := range rs.all {
		if !r.gone {
			testwait.Until(t, patience, fmt.Sprintf("the gateways know %d", n), func() bool {
				return len(r.Control.Replicas()) == n
			})
		}
	}
}

// pick returns the address of the next gateway in turn.
func (rs *replicas) pick() string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for {
		rs.next++
		if r := rs.all[rs.next%len(rs.all)]; !r.gone {
			return strings.TrimPrefix(r.url, "http://")
		}
	}
}

// end ends a gateway.
func (rs *replicas) end(t testing.TB, r *replica) {
	t.Helper()
	rs.mu.Lock()
	r.gone = true
	rs.mu.Unlock()
	r.stop()
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
}

// post sends a message to one URL and returns what came back.
func post(t testing.TB, url, key, body string, headers ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, string(text)}
}

// open opens a session at a URL and returns its id.
func open(t testing.TB, url, key string) string {
	t.Helper()
	got := post(t, url+"/mcp", key, legacyInitialize)
	id := got.header.Get(mcp.HeaderSession)
	if got.status != http.StatusOK || id == "" {
		t.Fatalf("initialize: %d %s", got.status, got.body)
	}
	return id
}

const echoCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"s__echo","arguments":{"text":"hi"}}}`

// A session is served wherever its requests arrive, by the gateway that opened it, and by
// another once that is gone. Nobody else's key finds it anywhere.
func TestSessionAtAnyReplica(t *testing.T) {
	t.Parallel()
	rs := newReplicas(t, 3, servers{"s": fake()})
	first := rs.all[0]
	id := open(t, first.url, "k")
	for i, r := range rs.all {
		got := post(t, r.url+"/mcp", "k", echoCall, mcp.HeaderSession, id)
		if got.status != http.StatusOK || !strings.Contains(got.body, `"result"`) {
			t.Errorf("at replica %d: %d %s", i, got.status, got.body)
		}
		if got := post(t, r.url+"/mcp", "other", echoCall, mcp.HeaderSession, id); got.status != http.StatusNotFound {
			t.Errorf("with another key at replica %d: %d %s", i, got.status, got.body)
		}
		if got := post(t, r.url+"/mcp", "k", echoCall, mcp.HeaderSession, id[:len(id)-2]+"AA"); got.status != http.StatusNotFound {
			t.Errorf("with another id at replica %d: %d %s", i, got.status, got.body)
		}
		if got := post(t, r.url+"/mcp/s/s", "k", echoCall, mcp.HeaderSession, id); got.status != http.StatusNotFound {
			t.Errorf("at another endpoint of replica %d: %d %s", i, got.status, got.body)
		}
	}
	open := func(r *replica) int { return r.Control.Activity().Sessions }
	if open(first) != 1 || open(rs.all[1]) != 0 || open(rs.all[2]) != 0 {
		t.Errorf("sessions: %d, %d and %d, want the first gateway's alone", open(first), open(rs.all[1]), open(rs.all[2]))
	}

	rs.end(t, first)
	for i, r := range rs.all[1:] {
		got := post(t, r.url+"/mcp", "k", echoCall, mcp.HeaderSession, id)
		if got.status != http.StatusOK || !strings.Contains(got.body, `"result"`) {
			t.Errorf("once its gateway is gone, at replica %d: %d %s", i+1, got.status, got.body)
		}
		if got := post(t, r.url+"/mcp", "other", echoCall, mcp.HeaderSession, id); got.status != http.StatusNotFound {
			t.Errorf("with another key: %d %s", got.status, got.body)
		}
	}
	if n := open(rs.all[1]) + open(rs.all[2]); n != 1 {
		t.Errorf("%d gateways have the session, want one", n)
	}
}

// A real client calls through a load balancer that takes each request elsewhere, is asked
// by a server in the middle of calls, and does not notice that its gateway goes away.
func TestClientOfReplicas(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			clientOfReplicas(t, version)
		})
	}
}

func clientOfReplicas(t *testing.T, version string) {
	upstream := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		server := sdk.NewServer(&sdk.Implementation{Name: "asks", Version: "1"}, nil)
		sdk.AddTool(server, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			got, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
			if err != nil {
				return nil, nil, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(got.Content["name"])}}}, nil, nil
		})
		return server
	}, nil))
	t.Cleanup(upstream.Close)
	t.Cleanup(upstream.CloseClientConnections)
	rs := newReplicas(t, 3, servers{"a": {"type": "http", "url": upstream.URL}})

	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "ann"}}, nil
		},
	})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: rs.balancer + "/mcp", HTTPClient: &http.Client{Transport: withKey{"k"}}, MaxRetries: 5,
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("it speaks %s", got)
	}
	ask := func(when string) {
		t.Helper()
		got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "a__ask", Arguments: map[string]any{}})
		if err != nil || got.IsError || got.Content[0].(*sdk.TextContent).Text != "ann" {
			t.Fatalf("%s: %+v, %v", when, got, err)
		}
	}
	for i := range 9 {
		ask(fmt.Sprintf("call %d", i))
	}
	for _, r := range rs.all[:2] {
		rs.end(t, r)
		for i := range 4 {
			ask(fmt.Sprintf("call %d after an end", i))
		}
	}
}

// withKey adds a key to requests.
type withKey struct{ key string }

// RoundTrip implements [http.RoundTripper].
func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// The command, the console and the admin API list all gateways that share the database, also by one
// that drains.
func TestReplicasAreListed(t *testing.T) {
	t.Parallel()
	rs := newReplicas(t, 2, servers{"s": fake()})
	list := rs.all[1].Control.Replicas()
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	operator := (&looked{r: rs.all[1].running, pages: rs.all[1].Console(t.Context(), consoleURL, true)}).as(t, "")
	page := operator.get(t, "/replicas").Body.String()
	self := 0
	for i := range list {
		if !strings.Contains(page, `<code class="id">`+list[i].ID+`</code>`) || !strings.Contains(page, "<bdi>"+list[i].Address+"</bdi>") {
			t.Errorf("the console does not show %+v", list[i])
		}
		if list[i].Self {
			self++
		}
		if list[i].Address == "" || list[i].Version == "" || list[i].Started.IsZero() {
			t.Errorf("%+v", list[i])
		}
	}
	if self != 1 || strings.Count(page, ", this one</td>") != 1 {
		t.Errorf("%d are the one that was asked", self)
	}
	rs.end(t, rs.all[0])
	rs.know(t, 1)
	var _ admin.Replicas = rs.all[1].Control
}

// What a client has set for its session goes on with it at another gateway: it is told of a
// resource that changes, and gets the messages of its level.
func TestSubscriptionGoesOn(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "files", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	server.AddResource(&sdk.Resource{URI: "file:///a", Name: "a"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "file:///a", Text: "a"}}}, nil
	})
	upstream := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(upstream.Close)
	t.Cleanup(upstream.CloseClientConnections)
	rs := newReplicas(t, 2, servers{"f": {"type": "http", "url": upstream.URL}})

	updated := make(chan string, 100)
	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
	})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: rs.balancer + "/mcp", HTTPClient: &http.Client{Transport: withKey{"k"}}, MaxRetries: 20,
	}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	uri := list.Resources[0].URI
	if err := session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	hears := func(when string) {
		t.Helper()
		testwait.Until(t, patience, when+": the client hears of a change", func() bool {
			if err := server.ResourceUpdated(t.Context(), &sdk.ResourceUpdatedNotificationParams{URI: "file:///a"}); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-updated:
				return got == uri
			default:
				return false
			}
		})
	}
	hears("at first")
	owner := 0
	if rs.all[1].Control.Activity().Sessions == 1 {
		owner = 1
	}
	rs.end(t, rs.all[owner])
	for len(updated) > 0 {
		<-updated
	}
	if _, err := session.ListResources(t.Context(), nil); err != nil { // its session goes on
		t.Fatal(err)
	}
	hears("after its gateway has ended")
}

// A kept result is read wherever the request arrives, by its principal alone.
func TestKeptResultAtAnyReplica(t *testing.T) {
	t.Parallel()
	rs := newReplicas(t, 2, servers{"s": fake()}, map[string]any{"results": map[string]any{"max_bytes": "2KiB", "larger": "keep"}})
	body, headers := modernRequest("tools/call", "s__echo", `"name":"s__echo","arguments":{"text":"`+strings.Repeat("x", 5000)+`"},`)
	got := post(t, rs.all[0].url+"/mcp", "k", body, headers...)
	uri := keptURI.FindString(got.body)
	if got.status != http.StatusOK || uri == "" {
		t.Fatalf("%d %.600s", got.status, got.body)
	}
	for i, r := range rs.all {
		body, headers := modernRequest("resources/read", uri, `"uri":"`+uri+`",`)
		if got := post(t, r.url+"/mcp", "k", body, headers...); !strings.Contains(got.body, strings.Repeat("x", 5000)) {
			t.Errorf("at replica %d: %d %.300s", i, got.status, got.body)
		}
		if got := post(t, r.url+"/mcp", "other", body, headers...); strings.Contains(got.body, "xxx") {
			t.Errorf("at replica %d by another: %d %.300s", i, got.status, got.body)
		}
	}
}

var keptURI = regexp.MustCompile(`toolgate://results/[a-z0-9~]+`)

// The messages of a client over HTTP+SSE reach its stream from any gateway.
func TestSSEOfReplicas(t *testing.T) {
	t.Parallel()
	rs := newReplicas(t, 3, servers{"s": fake()})
	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.SSEClientTransport{
		Endpoint: rs.balancer + "/sse", HTTPClient: &http.Client{Transport: withKey{"k"}},
	}, &sdk.ClientSessionOptions{ProtocolVersion: "2024-11-05"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for i := range 6 {
		got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "s__echo", Arguments: map[string]any{"text": "hi"}})
		if err != nil || got.IsError {
			t.Fatalf("call %d: %+v, %v", i, got, err)
		}
	}
}

// A gateway that has stopped calling a server has the others look at it, so that their
// clients do not all find out.
func TestBreakerElsewhere(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "fails", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "work"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{}, nil, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	var broken atomic.Bool
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "broken", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(upstream.Close)
	t.Cleanup(upstream.CloseClientConnections)
	rs := newReplicas(t, 2, servers{"a": {"type": "http", "url": upstream.URL}})
	broken.Store(true)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__work","arguments":{}}}`
	id := open(t, rs.all[0].url, "k")
	for range 6 {
		post(t, rs.all[0].url+"/mcp", "k", call, mcp.HeaderSession, id)
	}
	for i, r := range rs.all {
		testwait.Until(t, patience, fmt.Sprintf("gateway %d does not call the server", i), func() bool {
			all := r.Control.Breakers()
			return len(all) == 1 && all[0].State != "closed"
		})
	}
}
