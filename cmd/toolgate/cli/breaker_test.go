//go:build e2e && !windows

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// sick is a server of 2026-07-28 over HTTP that misbehaves while it is ill, also
// when it is asked for a sign of life.
type sick struct {
	*httptest.Server
	how   func(w http.ResponseWriter, r *http.Request)
	ill   atomic.Bool
	until int64 // the call with which it is well again; 0 is none
	calm  bool  // it gives signs of life all the same
	calls atomic.Int64

	mu   sync.Mutex
	keys http.Header // of the latest call
}

func newSick(t *testing.T, how func(http.ResponseWriter, *http.Request)) *sick {
	t.Helper()
	s := &sick{how: how}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// entry is the server in a configuration.
func (s *sick) entry() map[string]any { return map[string]any{"type": "http", "url": s.URL + "/mcp"} }

// ServeHTTP implements http.Handler.
func (s *sick) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	msg, err := mcp.Parse(body, mcp.Limits{})
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if msg.Method == mcp.MethodToolsCall {
		if s.calls.Add(1) == s.until {
			s.ill.Store(false)
		}
		s.mu.Lock()
		s.keys = r.Header.Clone()
		s.mu.Unlock()
	}
	if s.ill.Load() && (msg.Method == mcp.MethodToolsCall || msg.Method == mcp.MethodDiscover && !s.calm) {
		s.how(w, r)
		return
	}
	result := ""
	switch msg.Method {
	case mcp.MethodDiscover:
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	case mcp.MethodToolsList:
		result = `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
	case mcp.MethodToolsCall:
		result = `{"resultType":"complete","content":[{"type":"text","text":"well"}]}`
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(mcp.AppendFault(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(mcp.AppendResult(nil, msg.ID, []byte(result)))
}

// The ways to be ill.
func status(code int, header ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<html>It is not our day.</html>")
	}
}

func reset(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// drip sends a comment now and then, and never an answer.
func drip(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, ": still here\n"); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
		}
	}
}

// callTool calls the tool echo of a server and returns the kind of its refusal,
// empty for an answer, and when it may be called again.
func callTool(t *testing.T, client *http.Client, url, server string) (kind string, retryAfter int) {
	t.Helper()
	name := server + "__echo"
	_, body := post(t, client, url, "", mcp.MethodToolsCall, name, fmt.Sprintf(`"name":%q,`, name))
	refusal := mcp.Lookup(body, "result", "_meta", "dev.toolgate/refusal")
	if refusal == nil {
		if !strings.Contains(string(body), `"well"`) {
			t.Fatalf("%s: %s", server, body)
		}
		return "", 0
	}
	kind, _ = mcp.LookupString(refusal, "kind")
	_ = json.Unmarshal(mcp.Lookup(refusal, "retry_after_ms"), &retryAfter) // 0 where there is none
	return kind, retryAfter
}

// Servers that are ill in every way have their breakers opened, are shown so, and
// are called again at once when they are well; their neighbour notices nothing.
func TestBreakers(t *testing.T) {
	t.Parallel()
	ways := map[string]func(http.ResponseWriter, *http.Request){
		"fails": status(500), "page": status(200), "gone": status(502), "full": status(503), "resets": reset, "hangs": hang, "drips": drip,
	}
	h := newHome(t)
	delete(h.env, "TOOLGATE_LISTEN_METRICS")
	all, healthy := map[string]*sick{}, newSick(t, hang)
	file, settings := servers{"healthy": healthy.entry()}, map[string]any{}
	for name, how := range ways {
		all[name] = newSick(t, how)
		file[name] = all[name].entry()
		settings[name] = map[string]any{
			"timeouts": map[string]any{"call": "300ms"}, "breaker": map[string]any{"failures": 3, "open": "2m"},
		}
	}
	metrics := testport.Address(t)
	h.write(t, file, map[string]any{"servers": settings, "listen": map[string]any{"metrics": metrics}})
	p, url := h.up(t)
	client := newClient(t)
	list := h.ok(t, "tools", h.file, "-o", "json")
	for name, s := range all {
		s.ill.Store(true)
		for i := range 3 {
			if kind, _ := callTool(t, client, url, name); kind == "" || kind == "breaker_open" {
				t.Errorf("%s, call %d: %q", name, i, kind)
			}
		}
		made := s.calls.Load()
		if kind, after := callTool(t, client, url, name); kind != "breaker_open" || after <= 0 || after > 120_000 || s.calls.Load() != made {
			t.Errorf("%s, after three: %q, again in %d ms, %d calls made of it", name, kind, after, s.calls.Load()-made)
		}
		if kind, _ := callTool(t, client, url, "healthy"); kind != "" {
			t.Errorf("the neighbour of %s: %q", name, kind)
		}
	}
	if got := h.ok(t, "tools", h.file, "-o", "json"); got != list {
		t.Errorf("the list has changed:\n%s", got)
	}
	for name, s := range h.servers(t) {
		if want := map[bool]string{true: "", false: "open"}[name == "healthy"]; s.Breaker != want || want != "" && !strings.Contains(s.Reason, "it keeps failing") {
			t.Errorf("ls: %s: %q, %q", name, s.Breaker, s.Reason)
		}
	}
	if got := h.ok(t, "ls", h.file); !strings.Contains(got, "ready (breaker open)") {
		t.Errorf("ls:\n%s", got)
	}
	if o := h.run(t, "call", "fails__echo", "--file", h.file); o.code != exitBreaker || !strings.Contains(o.stdout, "keeps failing and is not called for now") {
		t.Errorf("call: %+v", o)
	}
	for _, b := range h.breakers(t, "ls") {
		want := "open"
		if b.Server == "healthy" {
			want = "closed"
		}
		if b.State != want || want == "open" && (b.Opens != 1 || b.Why == "" || b.Until == nil) {
			t.Errorf("breaker ls: %+v", b)
		}
	}
	text := fetch(t, client, "http://"+metrics+"/metrics")
	for _, want := range []string{
		`toolgate_breaker_state{server="fails",state="open",tool=""} 1`, `toolgate_breaker_opened_total{server="fails",tool=""} 1`,
		`toolgate_refusals_total{kind="breaker_open",tool_name="fails__echo"} `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}

	// They are well again: after a sign of life the next call is made.
	for _, s := range all {
		s.ill.Store(false)
	}
	for name := range all {
		testwait.Until(t, patience, name+" is called again", func() bool {
			kind, _ := callTool(t, client, url, name)
			return kind == ""
		})
	}
	for _, b := range h.breakers(t, "ls") {
		if b.State != "closed" {
			t.Errorf("in the end: %+v", b)
		}
	}
	p.stop(t, syscall.SIGTERM)
	refused, opened, closed := 0, map[any]bool{}, map[any]bool{}
	for _, e := range h.entries(t) {
		switch {
		case e["code"] == "breaker_open" && e["outcome"] == "denied":
			refused++
		case e["kind"] == "breaker" && e["name"] == "open":
			opened[e["server"]] = true
		case e["kind"] == "breaker" && e["name"] == "closed":
			closed[e["server"]] = opened[e["server"]]
		}
	}
	for name := range ways {
		if !opened[name] || !closed[name] {
			t.Errorf("the audit log says of %s: opened %v, closed %v", name, opened[name], closed[name])
		}
	}
	if refused < len(ways)+1 {
		t.Errorf("%d refusals of breakers in the audit log", refused)
	}
}

// breakers runs a command of the breakers and returns what it prints.
func (h *home) breakers(t *testing.T, args ...string) []admin.Breaker {
	t.Helper()
	var out struct{ Breakers []admin.Breaker }
	args = append(append([]string{"breaker"}, args...), "--file", h.file, "-o", "json")
	if err := json.Unmarshal([]byte(h.ok(t, args...)), &out); err != nil {
		t.Fatal(err)
	}
	return out.Breakers
}

// An operator closes breakers, which survive reloads; a tool may have one of its
// own.
func TestBreakerReset(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := newSick(t, status(500))
	s.calm = true
	settings := func(more map[string]any) map[string]any {
		own := map[string]any{
			"breaker": map[string]any{"failures": 3, "open": "2m"},
			"tools":   map[string]any{"echo": map[string]any{"breaker": map[string]any{"failures": 2, "open": "1m"}}},
		}
		maps.Copy(own, more)
		return map[string]any{"servers": map[string]any{"s": own}}
	}
	h.write(t, servers{"s": s.entry()}, settings(nil))
	_, url := h.up(t)
	client := newClient(t)
	s.ill.Store(true)
	for range 2 {
		if kind, _ := callTool(t, client, url, "s"); kind != "upstream_error" {
			t.Fatalf("%q", kind)
		}
	}
	states := func(got []admin.Breaker) string {
		var out []string
		for _, b := range got {
			out = append(out, strings.TrimSpace(b.Server+" "+b.Tool)+" "+b.State)
		}
		return strings.Join(out, ", ")
	}
	if got := states(h.breakers(t, "ls")); got != "s closed, s echo open" {
		t.Errorf("after two failures: %s", got)
	}
	if kind, _ := callTool(t, client, url, "s"); kind != "breaker_open" {
		t.Errorf("the tool: %q", kind)
	}
	h.write(t, servers{"s": s.entry()}, settings(map[string]any{"concurrency": 3}))
	h.ok(t, "reload", h.file)
	if got := states(h.breakers(t, "ls")); got != "s closed, s echo open" {
		t.Errorf("after a reload: %s", got)
	}
	if got := states(h.breakers(t, "reset", "s", "echo")); got != "s closed, s echo closed" {
		t.Errorf("reset: %s", got)
	}
	if kind, _ := callTool(t, client, url, "s"); kind != "upstream_error" {
		t.Errorf("after the reset: %q", kind)
	}
	if got := h.breakers(t, "ls"); got[0].Failures != 1 || got[0].Why == "" {
		t.Errorf("one failure at the server that was begun anew: %+v", got[0])
	}
	if got := h.ok(t, "breaker", "ls", "--file", h.file); !strings.Contains(got, "IN STATE") || !strings.Contains(got, "LAST FAILURE") || !strings.Contains(got, "HTTP Internal Server Error") {
		t.Errorf("table:\n%s", got)
	}
	if got := states(h.breakers(t, "reset", "s")); got != "s closed, s echo closed" {
		t.Errorf("reset of all: %s", got)
	}
	for _, args := range [][]string{{"reset", "none"}, {"reset", "s", "none"}, {"reset", "s", ""}} {
		if o := h.run(t, append(append([]string{"breaker"}, args...), "--file", h.file)...); o.code != exitUsage || o.stderr == "" {
			t.Errorf("%v: %+v", args, o)
		}
	}
}

// What a busy server asks for is respected, and no header of a client's file
// makes net/http send a call twice.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	date := func(in time.Duration, layout string) string { return time.Now().UTC().Add(in).Format(layout) }
	forms := map[string]string{
		"seconds": "40", "fixdate": date(50*time.Second, http.TimeFormat), "rfc850": date(50*time.Second, "Monday, 02-Jan-06 15:04:05 GMT"),
		"asctime": date(50*time.Second, time.ANSIC), "days": "864000",
	}
	file, all := servers{}, map[string]*sick{}
	for name, value := range forms {
		all[name] = newSick(t, status(429, "Retry-After", value))
		file[name] = all[name].entry()
		file[name]["headers"] = map[string]any{"Idempotency-Key": "k", "X-Idempotency-Key": "k", "X-Mine": "m"}
	}
	soon := newSick(t, status(503, "Retry-After", "0"))
	soon.until = 3
	file["soon"] = soon.entry()
	h.write(t, file, nil)
	_, url := h.up(t)
	client := newClient(t)
	for name, s := range all {
		s.ill.Store(true)
		for i := range 2 {
			kind, after := callTool(t, client, url, name)
			if most := 120_000; kind != "upstream_busy" || after < 30_000 || i == 1 && after > most {
				t.Errorf("%s, call %d: %q, again in %d ms", name, i, kind, after)
			}
		}
		if n := s.calls.Load(); n != 1 {
			t.Errorf("%s was called %d times", name, n)
		}
		s.mu.Lock()
		for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			if s.keys.Values(header) != nil {
				t.Errorf("%s got the header %s", name, header)
			}
		}
		if s.keys.Get("X-Mine") != "m" {
			t.Errorf("%s did not get its other header", name)
		}
		s.mu.Unlock()
	}
	soon.ill.Store(true)
	if kind, _ := callTool(t, client, url, "soon"); kind != "" || soon.calls.Load() != 3 {
		t.Errorf("a server that asks for patience twice: %q after %d calls", kind, soon.calls.Load())
	}
}

func fetch(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
