package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// seen is one request that a fake server got.
type seen struct {
	Method string // of HTTP for GET and DELETE, else of the message
	Header http.Header
	Body   string
	ID     mcp.ID
}

// fakeHTTP is a scripted MCP server on a loopback port: modern without
// sessions, legacy with them.
type fakeHTTP struct {
	t   *testing.T
	era mcp.Era

	mu       sync.Mutex
	on       map[string]func(*exchange) // replaces what a method does
	guard    http.HandlerFunc           // sees every request first; one that it answers goes no further
	log      []seen
	sessions map[string]bool
	made     int
	addr     string
	server   *http.Server
	down     chan struct{}
	served   chan struct{}
	list     []string
}

// exchange is one request with its answer.
type exchange struct {
	*fakeHTTP
	w       http.ResponseWriter
	r       *http.Request
	msg     mcp.Message
	down    <-chan struct{}
	writing sync.Mutex // of blocks; answers of HTTP+SSE come from several handlers
	flowing bool
}

const (
	modernCaps = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`
	legacyCaps = `{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}`
)

// discoverResult is what a modern fake says about itself.
const discoverResult = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + modernCaps +
	`,"instructions":"be kind","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"2"}}}`

func newFake(t *testing.T, era mcp.Era) *fakeHTTP {
	t.Helper()
	f := &fakeHTTP{t: t, era: era, on: make(map[string]func(*exchange)), list: []string{"echo"}}
	f.start()
	t.Cleanup(f.kill)
	return f
}

// spec is the configuration of the fake.
func (f *fakeHTTP) spec() Spec {
	return Spec{Key: "srv", Transport: Auto, URL: f.url(), Local: "me", Questions: everyQuestion}
}

func (f *fakeHTTP) url() string { return "http://" + f.addr + "/mcp" }

// start listens, on the same port as before if there was one, with no session
// known.
func (f *fakeHTTP) start() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	addr := f.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.addr = listener.Addr().String()
	f.sessions = make(map[string]bool)
	f.down, f.served = make(chan struct{}), make(chan struct{})
	f.server = &http.Server{Handler: f}
	server, served := f.server, f.served
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
}

// kill cuts every connection, as the end of the process would.
func (f *fakeHTTP) kill() {
	f.mu.Lock()
	server, down, served := f.server, f.down, f.served
	f.server = nil
	f.mu.Unlock()
	if server == nil {
		return
	}
	close(down)
	server.Close()
	<-served
}

// answered notes whether an answer has begun.
type answered struct {
	http.ResponseWriter
	yes bool
}

func (a *answered) WriteHeader(status int) {
	a.yes = true
	a.ResponseWriter.WriteHeader(status)
}

// forget ends all sessions.
func (f *fakeHTTP) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.sessions)
}

// handle sets what happens on a method.
func (f *fakeHTTP) handle(method string, do func(*exchange)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on[method] = do
}

// offer sets the tools.
func (f *fakeHTTP) offer(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = names
}

// requests returns what was asked with a method so far.
func (f *fakeHTTP) requests(method string) []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []seen
	for _, s := range f.log {
		if s.Method == method {
			all = append(all, s)
		}
	}
	return all
}

// ServeHTTP implements http.Handler.
func (f *fakeHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	guard := f.guard
	f.mu.Unlock()
	if guard != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		seen := &answered{ResponseWriter: w}
		guard(seen, r)
		if seen.yes {
			return
		}
	}
	f.mu.Lock()
	x := &exchange{fakeHTTP: f, w: w, r: r, down: f.down}
	f.mu.Unlock()
	method := r.Method
	if method == http.MethodPost {
		if x.msg, err = mcp.Parse(body, mcp.Limits{}); err != nil {
			f.t.Errorf("the gateway sent %q: %v", body, err)
		}
		method = x.msg.Method
		if x.msg.Kind == mcp.KindResponse {
			method = "answer"
		}
	}
	f.mu.Lock()
	f.log = append(f.log, seen{method, r.Header.Clone(), string(body), x.msg.ID})
	do := f.on[method]
	era := f.era
	known := f.sessions[r.Header.Get(mcp.HeaderSession)]
	f.mu.Unlock()
	if era == mcp.EraUnknown { // it speaks both
		era = max(mcp.Legacy, mcp.Version(r.Header.Get(mcp.HeaderVersion)).Era())
	}
	switch {
	case do != nil:
		do(x)
	case era == mcp.Modern:
		x.modern(method)
	case method != mcp.MethodInitialize && method != mcp.MethodDiscover && !known:
		x.status(http.StatusNotFound, "text/plain", "no such session")
	default:
		x.legacy(method)
	}
}

func (x *exchange) modern(method string) {
	switch method {
	case mcp.MethodDiscover:
		x.result(discoverResult)
	case mcp.MethodToolsList:
		x.result(`{"resultType":"complete","ttlMs":60000,"cacheScope":"public",` + x.tools()[1:])
	case mcp.MethodToolsCall:
		x.echo()
	case mcp.MethodListen:
		x.listen()
	case mcp.MethodRead, mcp.MethodPromptsGet, mcp.MethodComplete:
		x.result(`{"resultType":"complete"}`)
	case mcp.MethodResources, mcp.MethodTemplates, mcp.MethodPromptsList:
		x.result(`{"resources":[],"resourceTemplates":[],"prompts":[]}`)
	case http.MethodGet, http.MethodDelete:
		x.status(http.StatusMethodNotAllowed, "", "")
	default:
		x.fault(http.StatusNotFound, mcp.CodeMethodNotFound, "Method not found")
	}
}

func (x *exchange) legacy(method string) {
	switch method {
	case mcp.MethodInitialize:
		x.mu.Lock()
		x.made++
		session := fmt.Sprintf("s-%d", x.made)
		x.sessions[session] = true
		x.mu.Unlock()
		x.w.Header().Set(mcp.HeaderSession, session)
		x.result(`{"protocolVersion":"2025-11-25","capabilities":` + legacyCaps + `,"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}`)
	case mcp.MethodDiscover:
		x.fault(http.StatusBadRequest, -32000, "Bad Request: Server not initialized")
	case mcp.MethodToolsList:
		x.result(x.tools())
	case mcp.MethodToolsCall:
		x.echo()
	case mcp.MethodPing, mcp.MethodSubscribe, mcp.MethodUnsubscribe, mcp.MethodSetLevel:
		x.result(`{}`)
	case mcp.MethodResources, mcp.MethodTemplates, mcp.MethodPromptsList:
		x.result(`{"resources":[],"resourceTemplates":[],"prompts":[]}`)
	case http.MethodGet:
		x.open()
		x.hold()
	case http.MethodDelete:
		x.mu.Lock()
		delete(x.sessions, x.r.Header.Get(mcp.HeaderSession))
		x.mu.Unlock()
		x.w.WriteHeader(http.StatusOK)
	case "answer", mcp.NotifyInitialized, mcp.NotifyCancelled:
		x.w.WriteHeader(http.StatusAccepted)
	default:
		x.fault(http.StatusOK, mcp.CodeMethodNotFound, "Method not found")
	}
}

func (x *exchange) tools() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return toolList(x.list...)
}

// echo answers with the params, byte for byte.
func (x *exchange) echo() { x.result(`{"content":[],"params":` + string(x.msg.Params()) + `}`) }

// status answers with a status and a body.
func (x *exchange) status(code int, kind, body string) {
	if kind != "" {
		x.w.Header().Set("Content-Type", kind)
	}
	x.w.WriteHeader(code)
	_, _ = io.WriteString(x.w, body)
}

// result answers the request: as the last event once the stream has begun,
// else as JSON.
func (x *exchange) result(result string) { x.answer(jsonAnswer(x.msg.ID, result)) }

func (x *exchange) answer(raw string) {
	if x.flowing {
		x.event(raw)
		return
	}
	x.status(http.StatusOK, "application/json", raw)
}

func (x *exchange) fault(status, code int, message string) {
	x.status(status, "application/json", jsonFault(x.msg.ID, code, message))
}

// open begins a stream of events.
func (x *exchange) open() {
	if x.flowing {
		return
	}
	x.flowing = true
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.w.WriteHeader(http.StatusOK)
	x.flush()
}

func (x *exchange) flush() { _ = http.NewResponseController(x.w).Flush() }

// event sends a message as an event.
func (x *exchange) event(raw string) { x.block("data: " + raw) }

// block sends lines as one block of the stream.
func (x *exchange) block(lines ...string) {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.open()
	_, _ = io.WriteString(x.w, strings.Join(lines, "\n")+"\n\n")
	x.flush()
}

// notify sends a notification on the stream of the request.
func (x *exchange) notify(method, params string) {
	x.event(string(mcp.AppendNotification(nil, method, []byte(params))))
}

// progress sends the progress of the request.
func (x *exchange) progress(n int) {
	x.notify(mcp.NotifyProgress, fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, x.msg.Meta(mcp.MetaProgressToken), n))
}

// listen acknowledges a subscription and keeps it open.
func (x *exchange) listen() {
	x.acknowledge()
	x.hold()
}

func (x *exchange) acknowledge() {
	x.notify(mcp.NotifyAcknowledged, fmt.Sprintf(`{"_meta":{%q:%s},"notifications":%s}`, mcp.MetaSubscriptionID, x.msg.ID, x.msg.Param("notifications")))
}

// hold waits until the other side leaves or the server is killed.
func (x *exchange) hold() {
	select {
	case <-x.r.Context().Done():
	case <-x.down:
	}
}

// cut ends the connection in the middle of things.
func (x *exchange) cut() { panic(http.ErrAbortHandler) }

// holdUntil waits like hold, or for c.
func (x *exchange) holdUntil(c <-chan struct{}) {
	select {
	case <-c:
	case <-x.r.Context().Done():
	case <-x.down:
	}
}

var _ http.Handler = (*fakeHTTP)(nil)

// within returns a context that ends in the test's patience.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
