package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream"
)

// remote is an MCP server behind HTTP, of either era, that notes what it got.
type remote struct {
	era  mcp.Era
	call func(w http.ResponseWriter, r *http.Request, msg *mcp.Message) // tools/call

	mu   sync.Mutex
	got  []string
	head []http.Header
}

func (s *remote) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	msg, err := mcp.Parse(body, mcp.Limits{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.got, s.head = append(s.got, msg.Method+" "+string(msg.Params())), append(s.head, r.Header.Clone())
	s.mu.Unlock()
	typed := `"resultType":"complete","ttlMs":1000,"cacheScope":"private",`
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(mcp.AppendResult(nil, msg.ID, []byte(result)))
	}
	switch {
	case msg.Kind != mcp.KindRequest:
		w.WriteHeader(http.StatusAccepted)
	case msg.Method == mcp.MethodDiscover && s.era == mcp.Modern:
		answer(`{` + typed + `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	case msg.Method == mcp.MethodInitialize && s.era == mcp.Legacy:
		w.Header().Set("Mcp-Session-Id", "remote-session")
		answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"r","version":"1"}}`)
	case msg.Method == mcp.MethodToolsList && s.era == mcp.Modern:
		answer(`{` + typed + `"tools":[{"zeta":9007199254740993,"name":"echo.it","inputSchema":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}]}`)
	case msg.Method == mcp.MethodToolsList:
		answer(`{"tools":[{"zeta":9007199254740993,"name":"echo.it","inputSchema":{"type":"object"}}]}`)
	case msg.Method == mcp.MethodToolsCall:
		s.call(w, r, &msg)
	case msg.Method == mcp.MethodPing:
		answer(`{}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(mcp.AppendFault(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")))
	}
}

// calls are the params of the calls of tools, with their headers.
func (s *remote) calls() (params []string, heads []http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, line := range s.got {
		if p, ok := strings.CutPrefix(line, mcp.MethodToolsCall+" "); ok {
			params, heads = append(params, p), append(heads, s.head[i])
		}
	}
	return params, heads
}

// chain is a real client side, the gateway and a real upstream in front of a
// server. It returns where the gateway listens.
func chain(t *testing.T, s *remote) (url string, r *rig) {
	t.Helper()
	behind := httptest.NewServer(s)
	t.Cleanup(behind.Close)
	r = newRig(t, nil)
	server := upstream.New(upstream.Spec{
		Key: "far", Transport: upstream.Streamable, URL: behind.URL, Headers: map[string]string{"X-Key": "k"},
	}, upstream.Options{
		Sink: r.Gateway, Credential: upstream.NewStatic(map[string]string{"X-Key": "k"}),
		Logger: slog.New(slog.DiscardHandler), Identity: Implementation("1"),
	})
	r.Apply(Config{Mounts: []Mount{{Backend: server, Namespace: "far"}}, Chain: gate.NewChain(gate.Open{}), Limiter: budget.Unlimited()})
	r.run()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	front := httptest.NewServer(r.Handler())
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("upstream: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	deadline, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	for {
		if listing, status := server.Listing(); listing != nil {
			break
		} else if deadline.Err() != nil {
			t.Fatalf("the server is %s: %s", status.State, status.Reason)
		}
	}
	r.Settle(deadline)
	return front.URL, r
}

// send makes a real request of one in memory.
func send(t *testing.T, ctx context.Context, url string, in *http.Request) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, in.Method, url+in.URL.Path, in.Body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = in.Header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// One call through everything that is real but the two ends.
func TestThroughRealServers(t *testing.T) {
	const answer = `{"unknown":18446744073709551616,"content":[{"type":"hologram","n":1.50}],"structuredContent":{"z":9007199254740993,"a":"\u00e9"}}`
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			s := &remote{era: era, call: func(w http.ResponseWriter, _ *http.Request, msg *mcp.Message) {
				w.Header().Set("Content-Type", "application/json")
				out := answer
				if era == mcp.Modern {
					out = `{"resultType":"complete",` + out[1:]
				}
				_, _ = w.Write(mcp.AppendResult(nil, msg.ID, []byte(out)))
			}}
			url, r := chain(t, s)
			tools := r.snapshot.Load().catalog.lists[mcp.Tool].entries
			if len(tools) != 1 || !strings.HasPrefix(tools[0].Exposed, "far__echo_it_") {
				t.Fatalf("tools %+v", tools)
			}
			name, arguments := tools[0].Exposed, `{"n":9007199254740993,"z":1.0,"a":"\u0041"}`
			if era == mcp.Modern {
				arguments = `{"n":42,"z":1.0,"a":"\u0041"}` // within what headers can mirror
			}
			var got, want string
			if era == mcp.Modern {
				resp := send(t, t.Context(), url, modernRequest(modernBody(`"\u0061"`, "tools/call", `"name":"`+name+`","arguments":`+arguments, `"mine":{"b":1,"a":2}`), "Mcp-Param-N", "42"))
				got = body(t, resp)
				want = `{"jsonrpc":"2.0","id":"\u0061","result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolgate","title":"toolgate","version":"1.0.0"}},"resultType":"complete",` + answer[1:] + `}`
			} else {
				session := send(t, t.Context(), url, httpRequest("POST", "/mcp", initBody)).Header.Get("Mcp-Session-Id")
				resp := send(t, t.Context(), url, httpRequest("POST", "/mcp", request(`"\u0061"`, "tools/call", `{"name":"`+name+`","arguments":`+arguments+`,"_meta":{"mine":{"b":1,"a":2}}}`), "Mcp-Session-Id", session))
				got = body(t, resp)
				want = `{"jsonrpc":"2.0","id":"\u0061","result":` + answer + `}`
			}
			if got != want {
				t.Errorf("answered\n%s\nwant\n%s", got, want)
			}
			params, heads := s.calls()
			if len(params) != 1 {
				t.Fatalf("the server got %d calls", len(params))
			}
			if p := []byte(params[0]); string(mcp.Lookup(p, "arguments")) != arguments || string(mcp.Lookup(p, "name")) != `"echo.it"` || string(mcp.Lookup(p, "_meta", "mine")) != `{"b":1,"a":2}` {
				t.Errorf("the server got %s", params[0])
			}
			if heads[0].Get("Authorization") != "" || heads[0].Get("X-Key") != "k" {
				t.Errorf("the server got the headers %v", heads[0])
			}
			if era == mcp.Modern && (heads[0].Get("Mcp-Name") != "echo.it" || heads[0].Get("Mcp-Param-N") != "42") {
				t.Errorf("the server got the headers %v", heads[0])
			}
			if out := r.ledger.outcomes(); len(out) != 1 || out[0] != "ok" {
				t.Errorf("audit %v", out)
			}
		})
	}
}

// A modern client that closes its connection ends the call at the server.
func TestRealDisconnect(t *testing.T) {
	arrived, withdrawn := make(chan struct{}), make(chan struct{})
	s := &remote{era: mcp.Modern, call: func(_ http.ResponseWriter, r *http.Request, _ *mcp.Message) {
		close(arrived)
		<-r.Context().Done()
		close(withdrawn)
	}}
	url, r := chain(t, s)
	name := r.snapshot.Load().catalog.lists[mcp.Tool].entries[0].Exposed
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		in := modernRequest(modernBody("1", "tools/call", `"name":"`+name+`"`, ""))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", in.Body)
		if err != nil {
			gone <- err
			return
		}
		req.Header = in.Header
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	<-arrived
	leave()
	if err := <-gone; err == nil {
		t.Error("the client got an answer")
	}
	select {
	case <-withdrawn:
	case <-time.After(20 * time.Second):
		t.Fatal("the call goes on at the server")
	}
	testwait.Until(t, patience, "the call is in the audit log", func() bool { return len(r.ledger.all()) == 1 })
	if out := r.ledger.outcomes(); out[0] != "cancelled" {
		t.Errorf("audit %v", out)
	}
}

// Progress of a real server reaches a real client before the answer, under the
// client's own token.
func TestRealProgress(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			s := &remote{era: era, call: func(w http.ResponseWriter, _ *http.Request, msg *mcp.Message) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range 3 {
					params := fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, msg.Meta(mcp.MetaProgressToken), i)
					_, _ = fmt.Fprintf(w, "data: %s\n\n", mcp.AppendNotification(nil, mcp.NotifyProgress, params))
				}
				_, _ = fmt.Fprintf(w, "data: %s\n\n", mcp.AppendResult(nil, msg.ID, []byte(`{"resultType":"complete","content":[]}`)))
			}}
			url, r := chain(t, s)
			name := r.snapshot.Load().catalog.lists[mcp.Tool].entries[0].Exposed
			resp := send(t, t.Context(), url, modernRequest(modernBody("1", "tools/call", `"name":"`+name+`"`, `"progressToken":"my\u0020own"`)))
			if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
				t.Fatalf("answered as %s: %s", kind, body(t, resp))
			}
			var got []string
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					got = append(got, data)
				}
			}
			if len(got) != 4 {
				t.Fatalf("%d events: %q", len(got), got)
			}
			for i, event := range got[:3] {
				if want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"my\u0020own","progress":%d}}`, i); event != want {
					t.Errorf("event %d: %s, want %s", i, event, want)
				}
			}
			if !strings.Contains(got[3], `"id":1,"result":{`) {
				t.Errorf("the answer: %s", got[3])
			}
		})
	}
}
