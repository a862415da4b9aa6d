package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	ioTimeout = 10 * time.Second // to read a request, and to write a message
	drainTime = 5 * time.Second  // for what is in flight when the server ends
)

// serveHTTP serves both eras on one URL until ctx ends. It then ends open streams in the
// way of their era.
func (s *server) serveHTTP(ctx context.Context, listener net.Listener) error {
	handler := newHTTPHandler(ctx, s)
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: ioTimeout, IdleTimeout: time.Minute}
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		drained <- srv.Shutdown(ending)
	})
	err := srv.Serve(listener)
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serving %s: %w", listener.Addr(), err)
	}
	if err := <-drained; err != nil {
		_ = srv.Close() // what has not ended in time is given up
	}
	return nil
}

type httpHandler struct {
	ctx      context.Context
	server   *server
	sessions *sessions
}

func newHTTPHandler(ctx context.Context, s *server) *httpHandler {
	return &httpHandler{ctx: ctx, server: s, sessions: newSessions(ctx, s.tasks)}
}

func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !local(r) {
		http.Error(w, "this server answers only local requests, by a local name", http.StatusForbidden)
		return
	}
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r)
	case r.Method == http.MethodGet && h.server.era != "modern":
		h.get(w, r)
	case r.Method == http.MethodDelete && h.server.era != "modern":
		if sess := h.session(w, r, nil); sess != nil {
			h.sessions.end(sess)
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		w.Header().Set("Allow", "POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// local keeps web pages out that have a local address by a name of their own
// (DNS rebinding): Host and Origin must be local names.
func local(r *http.Request) bool {
	isLocal := func(host string) bool {
		ip := net.ParseIP(strings.Trim(host, "[]"))
		return host == "localhost" || ip != nil && ip.IsLoopback()
	}
	host := (&url.URL{Host: r.Host}).Hostname()
	origin := r.Header.Get("Origin")
	if origin == "" {
		return isLocal(host)
	}
	u, err := url.Parse(origin)
	return err == nil && isLocal(host) && isLocal(u.Hostname())
}

// session finds the session that a legacy request names, or answers that there is none.
func (h *httpHandler) session(w http.ResponseWriter, r *http.Request, request json.RawMessage) *session {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		reply(w, http.StatusBadRequest, response(request, nil, errorf(codeInvalidRequest, "Mcp-Session-Id is missing: begin with initialize")))
		return nil
	}
	if v := r.Header.Get("MCP-Protocol-Version"); v != "" && v != legacyVersion {
		reply(w, http.StatusBadRequest, response(request, nil, errorf(codeInvalidRequest, "this session speaks %s", legacyVersion)))
		return nil
	}
	sess := h.sessions.find(id)
	if sess == nil {
		reply(w, http.StatusNotFound, response(request, nil, errorf(codeInvalidRequest, "no such session")))
	}
	return sess
}

func (h *httpHandler) post(w http.ResponseWriter, r *http.Request) {
	m := readMessage(w, r)
	if m == nil {
		return
	}
	version := r.Header.Get("MCP-Protocol-Version")
	if h.server.isModern(m) || h.server.era == "both" && version > legacyVersion {
		h.modern(w, r, m)
		return
	}
	if m.Method == "initialize" && m.ID != nil {
		h.initialize(w, m)
		return
	}
	sess := h.session(w, r, m.ID)
	switch {
	case sess == nil:
	case m.Method == "" || m.ID == nil:
		sess.notified(m)
		w.WriteHeader(http.StatusAccepted)
	default:
		ctx, done, rpcErr := sess.begin(r.Context(), m.ID)
		if rpcErr != nil {
			reply(w, http.StatusOK, response(m.ID, nil, rpcErr))
			return
		}
		defer done()
		h.serve(ctx, w, sess, m)
	}
}

// readMessage reads the one message of a POST, or answers why it cannot.
func readMessage(w http.ResponseWriter, r *http.Request) *message {
	if t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); t != "application/json" {
		http.Error(w, "the body must be application/json", http.StatusUnsupportedMediaType)
		return nil
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(ioTimeout)) // every server of net/http can
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	_ = rc.SetReadDeadline(time.Time{}) // from here on, reading only notices that the client goes
	if err != nil {
		status := http.StatusBadRequest
		if errors.As(err, new(*http.MaxBytesError)) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "cannot read the body: "+err.Error(), status)
		return nil
	}
	m, rpcErr := parse(data)
	if rpcErr != nil {
		reply(w, http.StatusBadRequest, response(idOf(m), nil, rpcErr))
		return nil
	}
	return m
}

// initialize opens a session. It ends with DELETE, with the server, or when others need
// its place.
func (h *httpHandler) initialize(w http.ResponseWriter, m *message) {
	sess := h.sessions.open()
	if sess == nil {
		reply(w, http.StatusServiceUnavailable, response(m.ID, nil, errorf(codeInternal, "too many sessions")))
		return
	}
	result, rpcErr := h.server.initialize(sess, &m.params)
	w.Header().Set("Mcp-Session-Id", sess.id)
	reply(w, http.StatusOK, response(m.ID, result, rpcErr))
}

// modern answers a request of the era without sessions, whose headers must say
// what its body says.
func (h *httpHandler) modern(w http.ResponseWriter, r *http.Request, m *message) {
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted) // no notification means anything here
		return
	}
	if rpcErr := checkHeaders(r.Header, m); rpcErr != nil {
		reply(w, http.StatusBadRequest, response(m.ID, nil, rpcErr))
		return
	}
	h.serve(r.Context(), w, nil, m)
}

// checkHeaders compares the headers with the values of the body that they repeat
// (SEP-2243; SEP-2663, "Routing Headers").
func checkHeaders(header http.Header, m *message) *rpcError {
	if v := m.params.Meta.Version; v != nil && header.Get("MCP-Protocol-Version") != *v {
		return errorf(codeHeaderMismatch, "header mismatch: MCP-Protocol-Version is not %q", *v)
	}
	if header.Get("Mcp-Method") != m.Method {
		return errorf(codeHeaderMismatch, "header mismatch: Mcp-Method is not %q", m.Method)
	}
	name := ""
	switch m.Method {
	case "tools/call":
		name = m.params.Name
	case "tasks/get", "tasks/update", "tasks/cancel":
		name = m.params.TaskID
	default:
		return nil
	}
	got := header.Get("Mcp-Name")
	if body, ok := strings.CutPrefix(got, "=?base64?"); ok && strings.HasSuffix(body, "?=") {
		data, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(body, "?="))
		if err != nil {
			return errorf(codeHeaderMismatch, "header mismatch: Mcp-Name is not base64")
		}
		got = string(data)
	}
	if got != name || len(header.Values("Mcp-Name")) != 1 {
		return errorf(codeHeaderMismatch, "header mismatch: Mcp-Name is not %q", name)
	}
	return nil
}

// serve answers a request with one JSON object, or, if anything is sent before the
// answer, with a stream of events.
func (h *httpHandler) serve(ctx context.Context, w http.ResponseWriter, sess *session, m *message) {
	if rpcErr := h.server.enter(); rpcErr != nil {
		reply(w, http.StatusServiceUnavailable, response(m.ID, nil, rpcErr))
		return
	}
	defer h.server.leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.ctx, func() { cancel(errors.New("the server ends")) })()
	out := &events{w: w}
	result, rpcErr := h.server.serve(ctx, sess, m, out)
	switch {
	case errors.Is(context.Cause(ctx), errCancelled): // nothing more is said
		out.start()
	case out.started:
		_ = out.send(response(m.ID, result, rpcErr)) // a client that has gone does not miss it
	default:
		status := http.StatusOK
		if sess == nil && rpcErr != nil {
			status = modernStatus(rpcErr, m)
		}
		reply(w, status, response(m.ID, result, rpcErr))
	}
}

// modernStatus is the HTTP status of an error in the modern era.
func modernStatus(err *rpcError, m *message) int {
	switch {
	case err.Code == codeMethodNotFound:
		return http.StatusNotFound
	case err.Code == codeMissingCapability, err.Code == codeUnsupportedVersion, err.Code == codeHeaderMismatch,
		m.params.Meta.Version == nil, m.params.Meta.Capabilities == nil:
		return http.StatusBadRequest
	default:
		return http.StatusOK
	}
}

// get is the stream for messages that belong to no request: the states of tasks.
func (h *httpHandler) get(w http.ResponseWriter, r *http.Request) {
	sess := h.session(w, r, nil)
	if sess == nil {
		return
	}
	if !sess.listen(true) {
		http.Error(w, "this session has such a stream", http.StatusConflict)
		return
	}
	defer sess.listen(false)
	if rpcErr := h.server.enter(); rpcErr != nil {
		http.Error(w, rpcErr.Message, http.StatusServiceUnavailable)
		return
	}
	defer h.server.leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(sess.ctx, cancel)()
	out := &events{w: w}
	out.start()
	_ = h.server.statuses(ctx, sess, out) // it ends with the client or the session
}

// events writes messages as server-sent events. It is used by one goroutine.
type events struct {
	w       http.ResponseWriter
	started bool
}

// start sends the headers, once.
func (e *events) start() {
	if e.started {
		return
	}
	e.started = true
	e.w.Header().Set("Content-Type", "text/event-stream")
	e.w.Header().Set("Cache-Control", "no-cache")
	e.w.Header().Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(e.w).Flush() // the next write says what is wrong
}

func (e *events) send(m object) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return e.write("event: message\ndata: " + string(data) + "\n\n")
}

func (e *events) alive() error { return e.write(": alive\n\n") }

func (e *events) write(text string) error {
	e.start()
	rc := http.NewResponseController(e.w)
	if err := rc.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(e.w, text); err != nil {
		return err
	}
	return rc.Flush()
}

// reply answers with one JSON object.
func reply(w http.ResponseWriter, status int, m object) {
	data, err := json.Marshal(m)
	if err != nil {
		status, data = http.StatusInternalServerError, nil
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(ioTimeout)) // every server of net/http can
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that has gone does not miss it
}
