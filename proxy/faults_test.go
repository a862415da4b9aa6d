package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/upstream"
)

// hop is a connection to a server in the tests of faults.
type hop string

const (
	stdioLegacy hop = "stdio, legacy"
	stdioModern hop = "stdio, modern"
	sseLegacy   hop = "SSE"
	httpLegacy  hop = "streamable HTTP, legacy"
	httpModern  hop = "streamable HTTP, modern"
)

var (
	everyHop   = []hop{stdioLegacy, stdioModern, sseLegacy, httpLegacy, httpModern}
	modernHops = []hop{stdioModern, httpModern}
	legacyHops = []hop{stdioLegacy, sseLegacy, httpLegacy}
	postHops   = []hop{sseLegacy, httpLegacy, httpModern}
	httpHops   = []hop{httpLegacy, httpModern}
)

func (h hop) era() mcp.Era {
	if slices.Contains(modernHops, h) {
		return mcp.Modern
	}
	return mcp.Legacy
}

// What a failed call means for the breaker of its server, which has counted one failure
// in a row: it counts a second one, resets, or ignores it.
const (
	countsAsGood    = 0
	countsAsNothing = 1
	countsAsFailed  = 2
)

// end is the expected consequence of a fault.
type end struct {
	kind    string // of a refusal; empty for a JSON-RPC error with code
	code    int
	status  int // over HTTP for a modern client; 200 when 0
	outcome audit.Outcome
	counts  int
	calls   int64 // requests that the server gets
}

var (
	invalidAnswer = end{kind: "upstream_error", outcome: audit.OutcomeError, counts: countsAsFailed, calls: 1}
	turnedDown    = end{kind: "upstream_error", outcome: audit.OutcomeError, counts: countsAsNothing, calls: 1}
	brokenOff     = end{kind: "upstream_unavailable", outcome: audit.OutcomeError, counts: countsAsFailed, calls: 1}
	notSignedIn   = end{kind: "needs_login", outcome: audit.OutcomeError, counts: countsAsNothing, calls: 1}
	busyNow       = end{kind: "upstream_busy", outcome: audit.OutcomeError, counts: countsAsNothing, calls: 3}
	sessionLost   = end{kind: "upstream_unavailable", outcome: audit.OutcomeError, counts: countsAsNothing, calls: 2}
)

func answeredWith(code, counts int) end {
	return end{code: code, outcome: audit.OutcomeError, counts: counts, calls: 1}
}

// faultCase is one fault of a server with tools/call.
type faultCase struct {
	name string
	// text is the response, in which ID stands for the id; empty for none.
	text string
	// post replaces the response to the POST of the call.
	post func(w http.ResponseWriter, r *http.Request)
	// away stops the server before the call; cut ends its stream or process instead of
	// a response.
	away, cut bool
	limit     time.Duration // of the call; 0 for a long one
	ends      map[hop]end
}

// on is the same end on several hops.
func on(hops []hop, e end) map[hop]end {
	out := make(map[hop]end, len(hops))
	for _, h := range hops {
		out[h] = e
	}
	return out
}

// but is a table of ends with exceptions for some hops.
func but(ends map[hop]end, hops []hop, e end) map[hop]end {
	for _, h := range hops {
		if _, ok := ends[h]; ok {
			ends[h] = e
		}
	}
	return ends
}

func faultText(code int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":ID,"error":{"code":%d,"message":"said by it","data":{"n":18446744073709551616}}}`, code)
}

func statusCase(status int, ends map[hop]end, header ...string) faultCase {
	name := "HTTP " + strconv.Itoa(status)
	if len(header) > 0 {
		name += " with " + header[0]
	}
	return faultCase{name: name, ends: ends, post: func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "said by it")
	}}
}

// faultCases are all faults of a server with a call. They are one table because there
// is one classification: faults of the server are never blamed on the client, and the
// other way round.
func faultCases() []faultCase {
	abort := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush(); panic(http.ErrAbortHandler) }
	all := []faultCase{
		{name: "invalid JSON", text: `{"jsonrpc":"2.0","id":ID,"result":{]`, ends: on(everyHop, invalidAnswer)},
		{name: "a key twice", text: `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"content":[]}}`, ends: on(everyHop, invalidAnswer)},
		{name: "jsonrpc 1.0", text: `{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}`, ends: on(everyHop, invalidAnswer)},
		{name: "a result that is a number", text: `{"jsonrpc":"2.0","id":ID,"result":5}`, ends: on(everyHop, invalidAnswer)},
		{name: "an error that is a string", text: `{"jsonrpc":"2.0","id":ID,"error":"no"}`, ends: on(everyHop, invalidAnswer)},
		{name: "neither result nor error", text: `{"jsonrpc":"2.0","id":ID}`, ends: on(httpHops, invalidAnswer)},
		{name: "no JSON", text: `said by it`, ends: on(httpHops, invalidAnswer)},
		{name: "another id", text: `{"jsonrpc":"2.0","id":"other","result":{}}`, ends: on(httpHops, invalidAnswer)},
		{name: "nothing in time", limit: 300 * time.Millisecond, ends: on(everyHop, end{kind: "upstream_timeout", outcome: audit.OutcomeError, counts: countsAsFailed, calls: 1})},
		{
			name: "an answer that is too large", text: `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"x":"` + strings.Repeat("x", 300<<10) + `"}}`,
			ends: on(everyHop, end{kind: "upstream_too_large", outcome: audit.OutcomeError, counts: countsAsNothing, calls: 1}),
		},
		{name: "its end instead of an answer", cut: true, ends: on(everyHop, brokenOff)},
		{
			name: "nobody there", away: true,
			ends: on(httpHops, end{kind: "upstream_unavailable", outcome: audit.OutcomeError, counts: countsAsNothing}),
		},
		{name: "the end after the headers", ends: on(httpHops, brokenOff), post: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			abort(w)
		}},
		{name: "half an answer", ends: on(httpHops, brokenOff), post: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
			abort(w)
		}},
		{name: "a stream without an answer", ends: on(httpHops, invalidAnswer), post: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
		}},
		{name: "HTML", ends: on(httpHops, invalidAnswer), post: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<p>said by it")
		}},
		{name: "202 without an answer", ends: on(httpHops, invalidAnswer), post: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
		}},
		statusCase(307, on(postHops, turnedDown), "Location", "/elsewhere"),
		statusCase(400, on(postHops, turnedDown)),
		statusCase(401, on(postHops, notSignedIn)),
		statusCase(403, on(postHops, notSignedIn)),
		statusCase(404, but(on(postHops, sessionLost), modernHops, turnedDown)),
		statusCase(429, on(postHops, turnedDown)),
		statusCase(429, on(postHops, busyNow), "Retry-After", "0"),
		statusCase(503, on(postHops, busyNow), "Retry-After", "0"),
	}
	for _, status := range []int{405, 408, 413, 415} {
		all = append(all, statusCase(status, on(postHops, turnedDown)))
	}
	for _, status := range []int{500, 502, 503} {
		all = append(all, statusCase(status, on(postHops, invalidAnswer)))
	}
	for _, code := range []int{mcp.CodeParse, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams, -32000, 7} {
		all = append(all, faultCase{name: "the error " + strconv.Itoa(code), text: faultText(code), ends: on(everyHop, answeredWith(code, countsAsGood))})
	}
	all = append(all, faultCase{name: "the error -32603", text: faultText(mcp.CodeInternal), ends: on(everyHop, answeredWith(mcp.CodeInternal, countsAsFailed))})
	for _, code := range []int{mcp.CodeHeaderMismatch, mcp.CodeUnsupportedVersion, -32023, -32029} {
		ends := but(on(everyHop, turnedDown), legacyHops, answeredWith(code, countsAsGood))
		if code == mcp.CodeHeaderMismatch { // repeated once, with headers of the current schema
			again := turnedDown
			again.calls = 2
			ends[httpModern] = again
		}
		all = append(all, faultCase{name: "the error " + strconv.Itoa(code), text: faultText(code), ends: ends})
	}
	return all
}

// faultyServer is a server with one tool that answers with a fault.
type faultyServer struct {
	hop   hop
	fault *faultCase
	calls atomic.Int64

	mu      sync.Mutex
	streams []chan string // of HTTP+SSE, lines to send; an empty one ends it
}

// answerTo is the server's response to everything but tools/call.
func (h hop) answerTo(msg *mcp.Message) []byte {
	switch {
	case msg.Kind != mcp.KindRequest:
		return nil
	case msg.Method == mcp.MethodDiscover && h.era() == mcp.Modern:
		return mcp.AppendResult(nil, msg.ID, []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
	case msg.Method == mcp.MethodInitialize && h.era() == mcp.Legacy:
		return mcp.AppendResult(nil, msg.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"r","version":"1"}}`))
	case msg.Method == mcp.MethodToolsList:
		return mcp.AppendResult(nil, msg.ID, []byte(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`))
	case msg.Method == mcp.MethodPing:
		return mcp.AppendResult(nil, msg.ID, []byte(`{}`))
	}
	return mcp.AppendFault(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found"))
}

func (s *faultyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && s.hop == sseLegacy {
		s.stream(w, r)
		return
	}
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
	answer := string(s.hop.answerTo(&msg))
	if msg.Method == mcp.MethodToolsCall {
		s.calls.Add(1)
		if s.fault.post != nil {
			s.fault.post(w, r)
			return
		}
		if answer = strings.ReplaceAll(s.fault.text, "ID", string(msg.ID)); s.hop != sseLegacy && answer == "" {
			if s.fault.cut {
				panic(http.ErrAbortHandler)
			}
			<-r.Context().Done()
			return
		}
	}
	switch {
	case s.hop == sseLegacy:
		w.WriteHeader(http.StatusAccepted)
		if answer != "" || s.fault.cut && msg.Method == mcp.MethodToolsCall {
			s.mu.Lock()
			n, _ := strconv.Atoi(r.URL.Query().Get("stream"))
			lines := s.streams[n]
			s.mu.Unlock()
			lines <- answer
		}
	case answer == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		if msg.Method == mcp.MethodInitialize {
			w.Header().Set("Mcp-Session-Id", "s1")
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}
}

// stream is the stream of HTTP+SSE.
func (s *faultyServer) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	lines := make(chan string, 16)
	s.mu.Lock()
	_, _ = fmt.Fprintf(w, "event: endpoint\ndata: /message?stream=%d\n\n", len(s.streams))
	s.streams = append(s.streams, lines)
	s.mu.Unlock()
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case line := <-lines:
			if line == "" {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, "data: "+line+"\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// Environment of a server on stdio: its fault and hop, and where it counts its calls.
const (
	faultVariable = "TOOLGATE_TEST_FAULT"
	hopVariable   = "TOOLGATE_TEST_HOP"
	countVariable = "TOOLGATE_TEST_COUNT"
)

func init() {
	name, ok := os.LookupEnv(faultVariable)
	if !ok {
		return
	}
	all := faultCases()
	fault := all[slices.IndexFunc(all, func(c faultCase) bool { return c.name == name })]
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		msg, err := mcp.Parse(line, mcp.Limits{})
		if err != nil {
			os.Exit(99)
		}
		answer := string(hop(os.Getenv(hopVariable)).answerTo(&msg))
		if msg.Method == mcp.MethodToolsCall {
			f, err := os.OpenFile(os.Getenv(countVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				os.Exit(98)
			}
			_, _ = f.WriteString("x")
			f.Close()
			if fault.cut {
				os.Exit(3)
			}
			answer = strings.ReplaceAll(fault.text, "ID", string(msg.ID))
		}
		if answer != "" {
			_, _ = os.Stdout.WriteString(answer + "\n")
		}
	}
}

// faultRig is a gateway with one guarded server that has a fault. ready waits for the
// server, count returns how many calls it got.
func faultRig(t *testing.T, h hop, fault *faultCase) (r *rig, g guarded, ready func(), count func() int64) {
	t.Helper()
	spec := upstream.Spec{Key: "far", Era: h.era(), Local: person("alice").Key(), Timeouts: upstream.Timeouts{Call: fault.limit}, Limits: upstream.Limits{ServerLimits: upstream.ServerLimits{Result: 256 << 10, Line: 256 << 10}}}
	s := &faultyServer{hop: h, fault: fault}
	count = s.calls.Load
	var behind *httptest.Server
	switch h {
	case stdioLegacy, stdioModern:
		file := filepath.Join(t.TempDir(), "calls")
		spec.Transport, spec.Command = upstream.Stdio, os.Args[0]
		spec.Env = []string{faultVariable + "=" + fault.name, hopVariable + "=" + string(h), countVariable + "=" + file, "GORACE=atexit_sleep_ms=0"}
		count = func() int64 {
			calls, _ := os.ReadFile(file)
			return int64(len(calls))
		}
	default:
		behind = httptest.NewUnstartedServer(s)
		behind.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		behind.Config.SetKeepAlivesEnabled(!fault.away)
		behind.Start()
		t.Cleanup(behind.Close)
		spec.URL, spec.Transport = behind.URL, upstream.Streamable
		if h == sseLegacy {
			spec.Transport = upstream.SSE
		}
	}
	r = newRig(t, nil)
	server := upstream.New(spec, upstream.Options{
		Sink: r.Gateway, Credential: upstream.NewStatic(nil), Logger: slog.New(slog.DiscardHandler), Identity: Implementation("1"),
	})
	g = newGuarded(server, guard.Settings{Breaker: guard.Breaker{Failures: 1000}})
	r.Apply(Config{Mounts: []Mount{{Backend: g.Guard, Namespace: "far"}}, Chain: gate.NewChain(gate.Open{}), Limiter: budget.Unlimited()})
	r.run()
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { _ = server.Run(ctx) })
	t.Cleanup(func() {
		if behind != nil {
			behind.CloseClientConnections()
		}
		cancel()
		ended.Wait()
	})
	ready = func() {
		t.Helper()
		testwait.Until(t, patience, "the server is ready", func() bool {
			listing, status := server.Listing()
			return listing != nil && status.State == mcp.Ready
		})
	}
	ready()
	settled, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	r.Settle(settled)
	testwait.Until(t, patience, "one tool is listed", func() bool { return len(r.snapshot.Load().catalog.lists[mcp.Tool].entries) == 1 })
	if fault.away {
		behind.Close()
	}
	return r, g, ready, count
}

// A server's fault with a call is reported as one of the server or the connection,
// never as a malformed request of the client. No error codes of the hop are passed on,
// the audit log has an error, the breaker counts as the table in docs/resilience.md
// says, and the call is retried as often as allowed.
func TestFaultsOfServers(t *testing.T) {
	for _, fault := range faultCases() {
		for h, want := range fault.ends {
			t.Run(fault.name+"/"+string(h), func(t *testing.T) {
				t.Parallel()
				r, g, ready, count := faultRig(t, h, &fault)
				for i, client := range []mcp.Era{mcp.Modern, mcp.Legacy} {
					if fault.away && i > 0 {
						break // its tool is gone
					}
					if i > 0 {
						ready()
					}
					g.Reset("")
					g.fail()
					before := count()
					var w *recorder
					if client == mcp.Modern {
						w = r.modern("1", mcp.MethodToolsCall, `"name":"far__echo","arguments":{}`)
					} else {
						w = r.legacy(r.open(), "1", mcp.MethodToolsCall, `{"name":"far__echo","arguments":{}}`)
					}
					checkEnd(t, client, want, w, &r.ledger.all()[i])
					if calls := count() - before; calls != want.calls {
						t.Errorf("%s client: the server got %d calls, want %d", client, calls, want.calls)
					}
					if row := g.Breakers()[0].Failures; row != want.counts {
						t.Errorf("%s client: the breaker counts %d failures in a row after one, want %d", client, row, want.counts)
					}
				}
			})
		}
	}
}

// checkEnd checks what a client got, and the audit entry, against the expected end.
func checkEnd(t *testing.T, client mcp.Era, want end, w *recorder, e *audit.Entry) {
	t.Helper()
	raw := []byte(w.text())
	if _, event, ok := strings.Cut(w.text(), "data: "); ok {
		raw, _, _ = cutLine(event)
	}
	msg, err := mcp.Parse(raw, mcp.Limits{})
	if err != nil {
		t.Fatalf("%s client: got %q: %v", client, w.text(), err)
	}
	if client == mcp.Modern && want.kind == "" && hopCode(want.code) { // these codes mean something else to it
		want.kind = "upstream_error"
	}
	code := want.kind
	if want.kind != "" {
		if kind, _ := mcp.LookupString(msg.Result(), "_meta", refusal.Key, "kind"); kind != want.kind || !isError(msg.Result()) {
			t.Errorf("%s client: got %s, want %s", client, raw, want.kind)
		}
		if strings.Contains(w.text(), "said by it") {
			t.Errorf("%s client: got words of the server: %s", client, raw)
		}
	} else {
		code = strconv.Itoa(want.code)
		got := mcp.ParseError(msg.Fault())
		if msg.Fault() == nil || got.Code != want.code {
			t.Errorf("%s client: got %s, want the error %d", client, raw, want.code)
		}
		if hidden := got.Message != "said by it"; hidden != strings.Contains(got.Message, "could not handle") ||
			!hidden && string(mcp.Lookup(got.Data, "n")) != "18446744073709551616" {
			t.Errorf("%s client: the error is not passed on as it is: %s", client, raw)
		}
	}
	if status := w.code(); status != max(want.status, http.StatusOK) {
		t.Errorf("%s client: HTTP status %d", client, status)
	}
	if e.Outcome != want.outcome || e.Code != code {
		t.Errorf("%s client: the audit log has %s, %s; want %s, %s", client, e.Outcome, e.Code, want.outcome, code)
	}
}

func cutLine(s string) (line []byte, rest string, ok bool) {
	before, rest, ok := strings.Cut(s, "\n")
	return []byte(before), rest, ok
}
