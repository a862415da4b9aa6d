package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// maxRequest bounds a request body, in bytes.
	maxRequest = 1 << 20
	// maxResult bounds the text of a result, in bytes.
	maxResult = 64 << 20
	// maxSessions bounds the sessions of the fast server.
	maxSessions = 1 << 17
)

// upstreamProgram is a fast MCP server: one era, one kind of answers, no
// checks but those without which a wrong proxy would look right.
func upstreamProgram(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "loopback `address`")
	era := flags.String("era", "legacy", "legacy or modern")
	answers := flags.String("answers", "json", "json or sse")
	tools := flags.Int("tools", 0, "tools besides echo and blob")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := newFastServer(*era == "modern", *answers == "sse", *tools)
	return serve(ctx, *listen, s)
}

// serve serves on an address until standard input or the context ends. It says
// on standard output where, and since when: the moment is in nanoseconds of
// Unix time.
func serve(ctx context.Context, address string, h http.Handler) error {
	var lc net.ListenConfig
	since := time.Now().UnixNano()
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	fmt.Printf("http://%s %d\n", l.Addr(), since)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go untilInputEnds(cancel) // ends with the process at the latest
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }() // ends with Close below
	select {
	case err = <-ended:
	case <-ctx.Done():
		server.Close()
		err = <-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", l.Addr(), err)
}

// untilInputEnds calls end when the runner has closed our standard input.
func untilInputEnds(end func()) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	end()
}

// fastServer answers on every path, but never on one that begins with /silent.
type fastServer struct {
	modern, events bool
	list           []byte // result of tools/list
	sessions       sync.Map
	questions      sync.Map // by id: a chan of the answer
	open           atomic.Int64
	last           atomic.Int64
	fill           []byte
}

func newFastServer(modern, events bool, tools int) *fastServer {
	s := &fastServer{modern: modern, events: events}
	s.fill = make([]byte, 64<<10)
	for i := range s.fill {
		s.fill[i] = fillByte
	}
	list := []byte(`{"tools":[` +
		`{"name":"echo","description":"Returns its text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},` +
		`{"name":"ask","description":"Asks for a text and returns it.","inputSchema":{"type":"object"}},` +
		`{"name":"blob","description":"Returns so many bytes.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]}}`)
	for i := range tools {
		list = append(list, ',')
		list = appendTool(list, i)
	}
	list = append(list, ']')
	if modern {
		list = append(list, `,"resultType":"complete","ttlMs":60000,"cacheScope":"private"`...)
	}
	s.list = append(list, '}')
	return s
}

// appendTool appends the definition of a tool of an ordinary size, about 400
// bytes.
func appendTool(b []byte, i int) []byte {
	return fmt.Appendf(b, `{"name":"tool-%04d","title":"Tool number %d","description":"Looks up the records of one collection that match `+
		`a query and returns at most a page of them, newest first.","inputSchema":{"type":"object","properties":`+
		`{"collection":{"type":"string","description":"Name of the collection"},"query":{"type":"string"},`+
		`"limit":{"type":"integer","minimum":1,"maximum":100}},"required":["collection","query"]},`+
		`"annotations":{"readOnlyHint":true}}`, i, i)
}

// fillByte is what the text of a blob consists of.
const fillByte = 'x'

// request is what the server reads of a message.
type request struct {
	ID     json.RawMessage
	Method string
	Result struct{ Content struct{ Text string } } // of an answer to a question
	Params struct {
		Name            string
		ProtocolVersion string
		Arguments       struct {
			Text  string
			Bytes int
		}
	}
}

func (s *fastServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/silent") {
		<-r.Context().Done()
		return
	}
	switch r.Method {
	case http.MethodPost:
	case http.MethodDelete:
		s.end(r.Header.Get(mcp.HeaderSession))
		w.WriteHeader(http.StatusNoContent)
		return
	default: // no stream outside of requests
		w.Header().Set("Allow", "POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	var req request
	if err != nil || json.Unmarshal(body, &req) != nil {
		s.fault(w, http.StatusBadRequest, nil, mcp.CodeParse, "Parse error")
		return
	}
	if s.modern {
		if r.Header.Get(mcp.HeaderMethod) != req.Method || r.Header.Get(mcp.HeaderVersion) != string(mcp.LatestModern) {
			s.fault(w, http.StatusBadRequest, req.ID, mcp.CodeHeaderMismatch, "Header mismatch")
			return
		}
		s.serveModern(w, &req)
		return
	}
	s.serveLegacy(w, r, &req)
}

func (s *fastServer) serveModern(w http.ResponseWriter, req *request) {
	const complete = `,"resultType":"complete"`
	switch {
	case req.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case req.Method == mcp.MethodDiscover:
		s.result(w, req.ID, []byte(`{"supportedVersions":["`+string(mcp.LatestModern)+`"],"capabilities":{"tools":{}}`+
			complete+`,"ttlMs":60000,"cacheScope":"private"}`))
	default:
		s.serveTools(w, req, complete)
	}
}

func (s *fastServer) serveLegacy(w http.ResponseWriter, r *http.Request, req *request) {
	if req.Method == mcp.MethodInitialize {
		if s.open.Load() >= maxSessions {
			s.fault(w, http.StatusServiceUnavailable, req.ID, mcp.CodeInternal, "Too many sessions")
			return
		}
		s.open.Add(1)
		id := "session-" + strconv.FormatInt(s.last.Add(1), 10)
		s.sessions.Store(id, true)
		w.Header()[mcp.HeaderSession] = []string{id}
		s.result(w, req.ID, []byte(`{"protocolVersion":"`+string(mcp.LatestLegacy)+`","capabilities":{"tools":{}},`+
			`"serverInfo":{"name":"bench","version":"1"}}`))
		return
	}
	switch id := r.Header.Get(mcp.HeaderSession); {
	case req.Method == mcp.MethodDiscover:
		s.fault(w, http.StatusBadRequest, req.ID, mcp.CodeMethodNotFound, "Method not found")
		return
	case id == "":
		s.fault(w, http.StatusBadRequest, req.ID, mcp.CodeInvalidRequest, "No session")
		return
	default:
		if _, known := s.sessions.Load(id); !known {
			s.fault(w, http.StatusNotFound, req.ID, mcp.CodeInvalidRequest, "Session not found")
			return
		}
	}
	switch {
	case req.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case req.Method == "":
		s.answered(req)
		w.WriteHeader(http.StatusAccepted)
	case req.Params.Name == "ask":
		s.ask(w, r, req)
	case req.Method == mcp.MethodPing:
		s.result(w, req.ID, []byte("{}"))
	default:
		s.serveTools(w, req, "")
	}
}

// ask asks for a text on the stream of the call and returns it.
func (s *fastServer) ask(w http.ResponseWriter, r *http.Request, req *request) {
	answer := make(chan string, 1)
	id := strconv.FormatInt(s.last.Add(1), 10)
	s.questions.Store(id, answer)
	defer s.questions.Delete(id)
	w.Header()["Content-Type"] = []string{"text/event-stream"}
	fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\",\"params\":"+
		"{\"message\":\"text?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}}}}\n\n", id, mcp.MethodElicit)
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	select {
	case text := <-answer:
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s%s%s}}\n\n", req.ID, textStart, mcp.Quote(text), textEnd)
	case <-r.Context().Done():
	}
}

// answered takes the answer to a question.
func (s *fastServer) answered(req *request) {
	if c, ok := s.questions.Load(string(req.ID)); ok {
		select {
		case c.(chan string) <- req.Result.Content.Text:
		default: // answered already
		}
	}
}

func (s *fastServer) end(id string) {
	if _, known := s.sessions.LoadAndDelete(id); known {
		s.open.Add(-1)
	}
}

// serveTools answers what both eras have; more are further members of a result.
func (s *fastServer) serveTools(w http.ResponseWriter, req *request, more string) {
	switch {
	case req.Method == mcp.MethodToolsList:
		s.result(w, req.ID, s.list)
	case req.Method != mcp.MethodToolsCall:
		s.fault(w, http.StatusOK, req.ID, mcp.CodeMethodNotFound, "Method not found")
	case req.Params.Name == "echo":
		out := append(make([]byte, 0, 256), textStart...)
		out = mcp.AppendQuote(out, req.Params.Arguments.Text)
		s.result(w, req.ID, append(append(append(out, textEnd...), more...), '}'))
	case req.Params.Name == "blob" && req.Params.Arguments.Bytes >= 0 && req.Params.Arguments.Bytes <= maxResult:
		s.blob(w, req.ID, req.Params.Arguments.Bytes, more)
	default:
		s.fault(w, http.StatusOK, req.ID, mcp.CodeInvalidParams, "Unknown tool")
	}
}

const (
	textStart = `{"content":[{"type":"text","text":`
	textEnd   = `}],"isError":false`
)

// result sends an answer of a known size.
func (s *fastServer) result(w http.ResponseWriter, id, result []byte) {
	body := make([]byte, 0, len(result)+len(id)+96)
	body = append(body, s.before(w)...)
	body = append(append(body, `{"jsonrpc":"2.0","id":`...), id...)
	body = append(append(body, `,"result":`...), result...)
	body = append(body, '}')
	body = append(body, s.after()...)
	if !s.events {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	_, _ = w.Write(body)
	if s.events {
		_ = http.NewResponseController(w).Flush()
	}
}

// blob sends a result with a text of so many bytes without holding it.
func (s *fastServer) blob(w http.ResponseWriter, id []byte, size int, more string) {
	head := s.before(w) + `{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + textStart + `"`
	tail := `"` + textEnd + more + "}}" + s.after()
	if !s.events {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(head) + size + len(tail))}
	}
	_, _ = io.WriteString(w, head)
	for size > 0 {
		n, err := w.Write(s.fill[:min(size, len(s.fill))])
		if err != nil {
			return
		}
		size -= n
	}
	_, _ = io.WriteString(w, tail)
}

// before sets the content type and returns what comes before a message.
func (s *fastServer) before(w http.ResponseWriter) string {
	if !s.events {
		w.Header()["Content-Type"] = []string{"application/json"}
		return ""
	}
	w.Header()["Content-Type"] = []string{"text/event-stream"}
	return "event: message\ndata: "
}

func (s *fastServer) after() string {
	if s.events {
		return "\n\n"
	}
	return ""
}

func (s *fastServer) fault(w http.ResponseWriter, status int, id json.RawMessage, code int, text string) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(status)
	_, _ = w.Write(mcp.AppendFault(nil, mcp.ID(id), mcp.Errorf(code, "%s", text)))
}
