//go:build e2e

package matrix

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

// streamServer is the streamable HTTP transport, with sessions up to 2025-11-25
// and without from 2026-07-28 on.
type streamServer struct {
	s *scripted

	mu       sync.Mutex
	next     int
	sessions map[string]*httpSession
	whole    []*peer // of 2026-07-28, by gateway
}

type httpSession struct {
	peer *peer
	out  *eventStream // the GET stream

	mu   sync.Mutex
	open bool // the GET stream
}

func (h *streamServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/mcp" {
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	if h.s.kind.modern() {
		h.modern(w, r)
		return
	}
	h.legacy(w, r)
}

// modern serves one request of 2026-07-28 (basic/transports/streamable-http).
func (h *streamServer) modern(w http.ResponseWriter, r *http.Request) {
	gateway, _ := strconv.Atoi(r.URL.Query().Get("gateway")) // the first has none
	p := h.whole[gateway]
	if r.Method != http.MethodPost {
		p.broken("%s over 2026-07-28", r.Method)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	raw, ok := readMessage(p, w, r)
	if !ok {
		return
	}
	msg, err := mcp.Parse(raw, mcp.Limits{})
	if err != nil {
		p.broken("got %s: %v", raw, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.modernHeaders(p, r, &msg)
	answer := &httpAnswer{w: w}
	in := p.receive(raw, r.Header, answer.send)
	if in == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	stop := context.AfterFunc(r.Context(), func() { in.cancel(errHungUp) })
	defer stop()
	answer.finish(in.serve())
}

// modernHeaders holds the headers of a request to its body.
func (h *streamServer) modernHeaders(p *peer, r *http.Request, msg *mcp.Message) {
	if !accepts(r, "application/json", "text/event-stream") {
		p.broken("Accept is %q", r.Header["Accept"])
	}
	for _, name := range []string{"Mcp-Session-Id", "Last-Event-Id", "Authorization", "Cookie"} {
		if r.Header.Get(name) != "" {
			p.broken("the header %s came", name)
		}
	}
	must := [][2]string{{"Mcp-Method", msg.Method}}
	if msg.Method != mcp.MethodInitialize { // which asks whether the server is legacy too
		must = append(must, [2]string{"Mcp-Protocol-Version", string(h.s.kind.rev)})
	}
	for _, want := range must {
		if got := r.Header[http.CanonicalHeaderKey(want[0])]; len(got) != 1 || got[0] != want[1] {
			p.broken("the header %s is %q for %s", want[0], got, msg.Raw)
		}
	}
	want := ""
	switch msg.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		want, _ = msg.ParamString("name")
	case mcp.MethodRead:
		want, _ = msg.ParamString("uri")
	case "tasks/get", "tasks/update", "tasks/cancel":
		want, _ = msg.ParamString("taskId")
	}
	if got, err := mcp.DecodeHeaderValue(r.Header.Get("Mcp-Name")); err != nil || got != want {
		p.broken("the header Mcp-Name is %q for %s", got, msg.Raw)
	}
}

// legacy serves one request of a session (2025-11-25 basic/transports).
func (h *streamServer) legacy(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	s := h.sessions[r.Header.Get("Mcp-Session-Id")]
	h.mu.Unlock()
	if r.Method == http.MethodPost {
		h.post(w, r, s)
		return
	}
	if s == nil {
		h.s.board.problem("", "server %s: %s without a session", h.s.kind, r.Method)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.versionHeader(s.peer, r)
	switch r.Method {
	case http.MethodGet:
		h.get(w, r, s)
	case http.MethodDelete:
		h.mu.Lock()
		delete(h.sessions, r.Header.Get("Mcp-Session-Id"))
		h.mu.Unlock()
		s.peer.gone()
	default:
		s.peer.broken("%s on the endpoint", r.Method)
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// versionHeader holds a request of a session to the negotiated revision.
func (h *streamServer) versionHeader(p *peer, r *http.Request) {
	got := r.Header["Mcp-Protocol-Version"]
	wanted := h.s.kind.rev >= mcp.V20250618 // 2025-06-18 basic/transports, Protocol Version Header
	if wanted && (len(got) != 1 || got[0] != string(h.s.kind.rev)) || !wanted && len(got) == 1 && got[0] != string(h.s.kind.rev) {
		p.broken("the header MCP-Protocol-Version is %q", got)
	}
	for name := range r.Header {
		if name == "Mcp-Method" || name == "Mcp-Name" || len(name) > len(mcp.HeaderParam) && name[:len(mcp.HeaderParam)] == mcp.HeaderParam {
			p.broken("the header %s is of another revision", name)
		}
	}
}

func (h *streamServer) post(w http.ResponseWriter, r *http.Request, s *httpSession) {
	fresh := s == nil
	if fresh {
		out := &eventStream{}
		s = &httpSession{out: out}
		s.peer = &peer{s: h.s} // until initialize makes a real one
	}
	raw, ok := readMessage(s.peer, w, r)
	if !ok {
		return
	}
	msg, err := mcp.Parse(raw, mcp.Limits{})
	switch {
	case err != nil:
		s.peer.broken("got %s: %v", raw, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	case fresh && msg.Method != mcp.MethodInitialize:
		if msg.Method != mcp.MethodDiscover {
			s.peer.broken("a message without a session: %s", raw)
		}
		jsonFault(w, http.StatusBadRequest, msg.ID, mcp.CodeInvalidRequest, "there is no session")
		return
	case fresh:
		h.open(w, s)
	default:
		h.versionHeader(s.peer, r)
	}
	if !accepts(r, "application/json", "text/event-stream") {
		s.peer.broken("Accept is %q", r.Header["Accept"])
	}
	answer := &httpAnswer{w: w}
	in := s.peer.receive(raw, r.Header, answer.send)
	switch {
	case in == nil:
		w.WriteHeader(http.StatusAccepted)
	case isResume(&msg):
		h.breakOff(w, in)
	default:
		// A connection that ends is no cancellation in these revisions.
		answer.finish(in.serve())
	}
}

// open gives a new session its id.
func (h *streamServer) open(w http.ResponseWriter, s *httpSession) {
	s.peer = h.s.connect(s.out.send)
	h.mu.Lock()
	h.next++
	id := fmt.Sprintf("%s-%d", h.s.name, h.next)
	h.sessions[id] = s
	h.mu.Unlock()
	w.Header().Set("Mcp-Session-Id", id)
}

// get serves the standalone stream of a session, or the rest of a broken one.
func (h *streamServer) get(w http.ResponseWriter, r *http.Request, s *httpSession) {
	if !accepts(r, "text/event-stream") {
		s.peer.broken("Accept of a GET is %q", r.Header["Accept"])
	}
	if last := r.Header.Get("Last-Event-Id"); last != "" {
		h.s.mu.Lock()
		rest := h.s.resumes[last]
		delete(h.s.resumes, last)
		h.s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		for _, ev := range rest {
			_, _ = io.WriteString(w, "id: "+ev.id+"\ndata: "+string(ev.data)+"\n\n")
		}
		return
	}
	s.mu.Lock()
	twice := s.open
	s.open = true
	s.mu.Unlock()
	if twice {
		s.peer.broken("a second standalone stream")
		w.WriteHeader(http.StatusConflict)
		return
	}
	s.out.open(w, "")
	<-r.Context().Done()
	s.out.close()
	s.mu.Lock()
	s.open = false
	s.mu.Unlock()
}

// isResume tells whether a call is of the tool whose stream breaks off.
func isResume(msg *mcp.Message) bool {
	name, _ := msg.ParamString("name")
	return msg.Method == mcp.MethodToolsCall && name == "resume"
}

// breakOff begins the answer of a call and ends the stream before it is
// complete; the rest is for who asks for what comes behind the last event.
func (h *streamServer) breakOff(w http.ResponseWriter, in *incoming) {
	defer in.done()
	last := in.cell + "-1"
	result := mcp.AppendResult(nil, in.msg.ID, text([]byte("resumed "+in.cell), ""))
	h.s.mu.Lock()
	h.s.resumes[last] = []event{{id: in.cell + "-2", data: result}}
	h.s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "id: "+last+"\nretry: 1\ndata: \n\n")
}

// httpAnswer is the answer to one POST: one JSON body, or a stream of events
// where something has to be said before.
type httpAnswer struct {
	w http.ResponseWriter

	mu     sync.Mutex
	stream *eventStream
	over   bool
}

func (a *httpAnswer) send(raw []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	if a.stream == nil {
		a.stream = &eventStream{}
		a.stream.open(a.w, "")
	}
	a.stream.send(raw)
}

// finish sends the answer itself; nil ends the request without one.
func (a *httpAnswer) finish(raw []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	switch {
	case a.stream != nil:
		if raw != nil {
			a.stream.send(raw)
		}
		a.stream.close()
	case raw != nil:
		a.w.Header().Set("Content-Type", "application/json")
		_, _ = a.w.Write(raw)
	default:
		a.w.WriteHeader(http.StatusAccepted)
	}
}
