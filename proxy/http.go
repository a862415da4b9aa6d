package proxy

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/about"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/replica"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// httpFront is the HTTP binding: both HTTP transports of MCP, the admission of callers,
// and the health endpoints.
type httpFront struct{ g *Gateway }

// Handler serves /mcp, /mcp/s/SERVER and /mcp/c/CAPSULE, /sse with /message, /livez and
// /readyz, the metadata of [Options.Resource], and a text for people with browsers at /.
// Behind the path of an MCP endpoint, /verbatim, /compact or /strict is how it lists
// schemas, and /find behind that its find view. Paths are compared exactly,
// never cleaned or redirected, so that no endpoint has a second spelling.
func (g *Gateway) Handler() http.Handler { return http.HandlerFunc(g.front.serveHTTP) }

// NewServer returns an HTTP server whose limits keep clients from exhausting it.
// Streams set their own write deadlines. HTTP/2 is spoken over TLS only. A connection
// of it has at most as many concurrent requests as a session. The bytes that it buffers
// before they are read are bounded: unknown senders are refused without reading them. A
// response never waits for a body that nobody reads.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           limit.WithoutUnread(h),
		ReadHeaderTimeout: readHeaderTime,
		ReadTimeout:       readTime,
		IdleTimeout:       idleConnTime,
		MaxHeaderBytes:    64 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streamsPerConn, MaxReceiveBufferPerConnection: connBuffer, MaxReceiveBufferPerStream: streamBuffer,
			SendPingTimeout: idleConnTime, PingTimeout: readHeaderTime,
		},
	}
}

func (hf *httpFront) serveHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if r.URL.RawPath != "" { // has needless escapes
		path = r.URL.RawPath
	}
	switch path {
	case "/livez":
		writePlainText(w, http.StatusOK, "ok")
		return
	case "/readyz":
		hf.readyz(w, r.URL.Query().Has("verbose"))
		return
	}
	if hf.g.opts.Resource.Serves(r.URL.EscapedPath()) { // public, for everyone and every Host
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		hf.g.opts.Resource.ServeHTTP(w, r)
		return
	}
	if !hf.checkOrigin(w, r) || about.Serve(w, r, path) {
		return
	}
	r, id, leave := hf.admit(w, r)
	if id == nil {
		return
	}
	defer leave()
	path, scope := hf.viewOf(path)
	server, isServer := strings.CutPrefix(path, "/mcp/s/")
	capsule, isCapsule := strings.CutPrefix(path, "/mcp/c/")
	switch {
	case path == "/mcp":
		hf.serveStreamable(w, r, id, scope)
	case isServer && hf.viewsServer(r.Context(), id, server):
		scope.Server = server
		hf.serveStreamable(w, r, id, scope)
	case isCapsule && hf.g.config.Load().holdsCapsule(id, capsule):
		scope.Capsule = capsule
		hf.serveStreamable(w, r, id, scope)
	case path == "/sse":
		hf.serveSSE(w, r, id, scope)
	case path == "/message":
		hf.serveMessage(w, r, id)
	case path == "/":
		w.Header().Set("Allow", "GET, HEAD")
		writeFault(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.CodeInvalidRequest, "There is nothing to call at this path; the endpoint is /mcp"))
	default:
		writeRefused(w, r, http.StatusNotFound, "", mcp.Errorf(mcp.CodeInvalidRequest, "There is nothing at this path; the endpoint is /mcp"))
	}
}

// viewOf returns a path without its schemas and its view, and the scope of those. The
// endpoint of a capsule has the view of the capsule.
func (hf *httpFront) viewOf(path string) (string, Scope) {
	base, scope := path, Scope{}
	if cut, ok := cutSegment(base, string(FindView)); ok {
		base, scope.View = cut, FindView
	}
	for _, mode := range schemas.Modes {
		if cut, ok := cutSegment(base, string(mode)); ok {
			base, scope.Schemas = cut, mode
			break
		}
	}
	if !endpoint(base) {
		return path, Scope{}
	}
	if capsule, ok := strings.CutPrefix(base, "/mcp/c/"); ok && scope.View == FullView {
		if of := hf.g.config.Load().Capsules; of != nil && of.Finds(capsule) {
			scope.View = FindView
		}
	}
	return base, scope
}

// cutSegment cuts the last segment off a path, unless it is the name of a server or a
// capsule.
func cutSegment(path, segment string) (base string, ok bool) {
	base, ok = strings.CutSuffix(path, "/"+segment)
	return base, ok && base != "/mcp/s" && base != "/mcp/c"
}

// endpoint reports whether a path may be that of an MCP endpoint.
func endpoint(path string) bool {
	return path == "/mcp" || path == "/sse" || strings.HasPrefix(path, "/mcp/s/") || strings.HasPrefix(path, "/mcp/c/")
}

// viewsServer reports whether the endpoint of a server exists for a caller: it may view
// something of the server, or the gate cannot decide at the moment. For any other
// caller there is no such endpoint.
func (hf *httpFront) viewsServer(ctx context.Context, id *gate.Identity, server string) bool {
	snap := hf.g.snapshot.Load()
	for _, c := range append(snap.everyCatalog(), snap.catalogOf(id, modernFeatures)) {
		of := c.byServer[server]
		if of == nil {
			continue
		}
		if some, err := snap.viewsAny(ctx, id, Scope{Server: server}, of); some || err != nil {
			return true
		}
	}
	return false
}

// holdsCapsule reports whether the endpoint of a capsule exists for a caller.
func (c *Config) holdsCapsule(id *gate.Identity, capsule string) bool {
	return capsule != "" && c.Capsules != nil && c.Capsules.Holds(id, capsule)
}

func writePlainText(w http.ResponseWriter, status int, word string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, word+"\n")
}

// checkOrigin refuses requests that a web page made the user's browser send. It checks the
// Host, which DNS rebinding cannot forge, and the Origin.
func (hf *httpFront) checkOrigin(w http.ResponseWriter, r *http.Request) bool {
	if !hf.g.opts.AnyHost && !allowedHost(r.Host, hf.g.opts.Hosts) {
		writeRefused(w, r, http.StatusForbidden, "", mcp.Errorf(mcp.CodeInvalidRequest,
			"The host of this request is not one of this gateway; add it to listen.hosts if it should be"))
		return false
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 || !hf.allowedOrigin(origins[0], r.Host) {
		writeFault(w, http.StatusForbidden, "", mcp.Errorf(mcp.CodeInvalidRequest,
			"The origin of this request, the web page that sends it, is not allowed; add it to listen.origins if it should be"))
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", strings.Join(append(paramHeaders(r.Header),
			"Authorization", "Content-Type", "Accept", "Last-Event-ID", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"), ", "))
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

// paramHeaders returns the Mcp-Param-* headers that a page asks to send. No list can
// name those of all tools.
func paramHeaders(h http.Header) []string {
	var out []string
	for name := range strings.SplitSeq(h.Get("Access-Control-Request-Headers"), ",") {
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if strings.HasPrefix(name, mcp.HeaderParam) {
			out = append(out, name)
		}
	}
	return out
}

func allowedHost(host string, also []string) bool {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if n, bad := strconv.ParseUint(port, 10, 16); bad != nil || n == 0 || port[0] == '+' {
			return false // "127.0.0.1:7777.evil.example" has the form of host:port
		}
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if loopback.Host(name) {
		return true
	}
	for _, a := range also {
		if strings.EqualFold(a, host) || strings.EqualFold(a, name) {
			return true
		}
	}
	return false
}

// allowedOrigin accepts configured origins and the gateway's own. Where callers
// authenticate it also accepts any page of this machine. Without authentication, any
// page of a local development server could call every tool as the local user.
func (hf *httpFront) allowedOrigin(origin, own string) bool {
	for _, a := range hf.g.opts.Origins {
		if strings.EqualFold(a, origin) {
			return true
		}
	}
	scheme, host, ok := strings.Cut(origin, "://")
	if !ok || scheme != "http" && scheme != "https" || strings.ContainsAny(host, "/@?#") || !allowedHost(host, nil) {
		return false
	}
	return hf.g.opts.LocalOrigins || strings.EqualFold(host, own)
}

// checkHeaders checks the headers of a POST that describe its body and the wanted
// response, in the order in which errors are reported.
func (hf *httpFront) checkHeaders(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.ContentLength > int64(hf.g.opts.Limits.Body):
		tooLarge(w, int(hf.g.opts.Limits.Body))
	case !mcp.PlainContent(r.Header["Content-Encoding"]):
		w.Header().Set("Accept-Encoding", "identity") // RFC 9110 section 12.5.3
		writeFault(w, http.StatusUnsupportedMediaType, "", mcp.Errorf(mcp.CodeInvalidRequest, "The content must not be compressed: send it without Content-Encoding"))
	case !jsonContent(r.Header.Get("Content-Type")):
		writeFault(w, http.StatusUnsupportedMediaType, "", mcp.Errorf(mcp.CodeInvalidRequest, "The content type must be application/json"))
	default:
		return true
	}
	return false
}

// readMessage reads the body of a POST within its limits, or answers the request. The
// claim counts the memory of the body until it is released.
func (hf *httpFront) readMessage(w http.ResponseWriter, r *http.Request, claim *limit.Claim) ([]byte, bool) {
	body, err := claim.Read(r.Body, r.ContentLength, int64(hf.g.opts.Limits.Body))
	switch {
	case err == nil:
		return body, true
	case errors.Is(err, limit.ErrTooLarge):
		tooLarge(w, int(hf.g.opts.Limits.Body))
	case errors.Is(err, limit.ErrFull), errors.Is(err, limit.ErrScarce):
		w.Header().Set("Connection", "close") // the rest is not read
		writeBusy(w, "", noRoom(err))
	default:
		writeFault(w, http.StatusBadRequest, "", mcp.Errorf(mcp.CodeParse, "Parse error: the body could not be read"))
	}
	return nil, false
}

// noRoom is the refusal of a message for which there is no memory.
func noRoom(err error) *refusal.Error {
	if errors.Is(err, limit.ErrScarce) {
		return refusal.MemoryScarce(err, limit.Small)
	}
	return refusal.BodiesFull(err)
}

func tooLarge(w http.ResponseWriter, most int) {
	w.Header().Set("Connection", "close")
	writeFault(w, http.StatusRequestEntityTooLarge, "", mcp.Errorf(mcp.CodeInvalidRequest, "The message is larger than %d bytes (limits.body)", most))
}

func jsonContent(value string) bool {
	if value == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(value)
	return err == nil && kind == "application/json"
}

// serveStreamable serves the streamable HTTP transport of all revisions on one URL:
// 2026-07-28 request by request, the legacy revisions with sessions.
func (hf *httpFront) serveStreamable(w http.ResponseWriter, r *http.Request, id *gate.Identity, scope Scope) {
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		hf.legacyStream(w, r, id, scope)
		return
	case http.MethodDelete:
		hf.legacyEnd(w, r, id, scope)
		return
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		writeFault(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.CodeInvalidRequest, "Method not allowed"))
		return
	}
	if !hf.checkHeaders(w, r) {
		return
	}
	if !mcp.AcceptsBoth(r.Header["Accept"]) {
		writeFault(w, http.StatusBadRequest, "", mcp.Errorf(mcp.CodeInvalidRequest,
			"The client must accept application/json and text/event-stream"))
		return
	}
	claim := hf.g.opts.Messages.Claim(id.Key())
	defer claim.Release()
	body, ok := hf.readMessage(w, r, claim)
	if !ok {
		return
	}
	if mcp.IsArray(body) {
		hf.legacyBatch(w, r, id, scope, body)
		return
	}
	msg, err := mcp.Parse(body, hf.parseLimits())
	switch {
	case err != nil:
		writeFault(w, http.StatusBadRequest, msg.ID, asFault(err))
	case modern(r.Header, &msg):
		hf.serveModern(w, r, id, scope, msg, body)
	default:
		hf.serveLegacy(w, r, id, scope, msg, body)
	}
}

func (hf *httpFront) parseLimits() mcp.Limits {
	return mcp.Limits{Depth: hf.g.opts.Limits.Depth, Values: maxMessageValues}
}

// maxMessageValues bounds the number of JSON values in one message. Rules and schemas
// decode a value into a hundred times the memory of its text. The bound holds before
// anything is decoded, also for callers without authentication. Results of servers are
// copied as bytes and have no such bound.
const maxMessageValues = 100_000

func asFault(err error) *mcp.Error {
	if fault, ok := errors.AsType[*mcp.Error](err); ok {
		return fault
	}
	return mcp.Errorf(mcp.CodeInternal, "Internal error")
}

// modern reports whether a message is of the modern era: its header names such a
// revision, or its _meta names any.
func modern(h http.Header, msg *mcp.Message) bool {
	return mcp.Version(h.Get(mcp.HeaderVersion)).Era() == mcp.Modern && !strings.HasPrefix(h.Get(mcp.HeaderVersion), "v") ||
		msg.Meta(mcp.MetaVersion) != nil
}

// serveModern serves one message of 2026-07-28. The message is complete in itself, and
// closing the connection cancels it.
func (hf *httpFront) serveModern(w http.ResponseWriter, r *http.Request, id *gate.Identity, scope Scope, msg mcp.Message, body []byte) {
	switch msg.Kind {
	case mcp.KindRequest:
	case mcp.KindNotification:
		if err := hf.g.requests.Take(limit.Notifications, id.Key()); err != nil {
			writeBusy(w, "", err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	default:
		writeFault(w, http.StatusBadRequest, "", mcp.Errorf(mcp.CodeInvalidRequest, "Invalid Request: a client sends no responses"))
		return
	}
	defer hf.g.inFlight.Response(msg.Method)() // also of one that another gateway answers
	owner := ownerNamed(&msg)
	if hf.g.replicas.Owned(w, forwardable(r), owner, replica.Of(&msg, body)) {
		return
	}
	if owner == "" && hf.g.inFlight.Closed() && hf.g.replicas.Away(w, forwardable(r), replica.Of(&msg, body)) {
		return
	}
	x := &Exchange{Message: msg, Identity: id, Scope: scope, Transport: "http", Header: r.Header}
	fault := checkVersion(r.Header, &msg)
	if fault == nil {
		fault = x.modernMeta()
	}
	if fault == nil && methods[msg.Method].modern { // an unknown method has no headers to compare
		fault = checkMirrors(r.Header, &msg)
	}
	if fault != nil {
		hf.g.reject(x, fault)
		writeFault(w, http.StatusBadRequest, msg.ID, fault)
		return
	}
	answer := hf.newHTTPResponse(w, r, nil, id)
	x.responder, x.over = answer, &answer.over
	got := hf.g.serveRequest(cancel.Inner(r.Context()), x)
	if err := accessRevoked(r.Context()); err != nil && got.silent {
		got.challenge = &authChallenge{err: err}
	}
	answer.finish(msg.ID, got, got.httpStatus())
	if !revalidated(r.Context()) { // else somebody may be about to look at the credential again
		answer.release()
	}
}

// ownerNamed returns the gateway that owns what a modern request names: a call that it
// suspended, a task, also one to follow, or a result that it keeps. It is empty for none.
func ownerNamed(msg *mcp.Message) string {
	if kept := keptNamed(msg); kept != "" {
		owner, _ := replica.Cut(strings.TrimPrefix(kept, result.URIPrefix))
		return owner
	}
	followed := mcp.Lookup(msg.Param("notifications"), "taskIds")
	for e := range mcp.Elements(followed) { // the first: tasks of several gateways are rare
		value, _ := mcp.Unquote(e.Of(followed))
		owner, _ := replica.Cut(value)
		return owner
	}
	for _, param := range [...]string{"requestState", "taskId"} {
		if value, ok := msg.ParamString(param); ok {
			if owner, _ := replica.Cut(value); owner != "" {
				return owner
			}
		}
	}
	return ""
}

// keptNamed returns the URI or the id of the kept result that a request reads, empty for none.
func keptNamed(msg *mcp.Message) string {
	switch msg.Method {
	case mcp.MethodRead:
		if uri, _ := msg.ParamString("uri"); strings.HasPrefix(uri, result.URIPrefix) {
			return uri
		}
	case mcp.MethodToolsCall:
		if name, _ := msg.ParamString("name"); name == result.ReaderServer+"__"+result.ReaderTool {
			id, _ := mcp.LookupString(msg.Param("arguments"), "id")
			return id
		}
	}
	return ""
}

// checkVersion compares the version header with the body and refuses unsupported
// revisions (2026-07-28 streamable HTTP, Protocol Version Header).
func checkVersion(h http.Header, msg *mcp.Message) *mcp.Error {
	meta := msg.Meta(mcp.MetaVersion)
	version, err := mcp.Unquote(meta)
	switch {
	case meta == nil:
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: _meta must have %s", mcp.MetaVersion)
	case err != nil:
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s must be a string", mcp.MetaVersion)
	}
	if fault := mcp.CheckNamed(h, mcp.HeaderVersion, version); fault != nil {
		return fault
	}
	return unsupported(version)
}

// checkMirrors compares the headers that mirror the body (2026-07-28 streamable HTTP,
// Server Validation). Headers that mirror arguments are compared later, after the gate.
func checkMirrors(h http.Header, msg *mcp.Message) *mcp.Error {
	if fault := mcp.CheckNamed(h, mcp.HeaderMethod, msg.Method); fault != nil {
		return fault
	}
	switch msg.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		if name, ok := msg.ParamString("name"); ok {
			return mcp.CheckNamed(h, mcp.HeaderName, name)
		}
	case mcp.MethodRead:
		if uri, ok := msg.ParamString("uri"); ok {
			return mcp.CheckNamed(h, mcp.HeaderName, uri)
		}
	case mcp.MethodTaskGet, mcp.MethodTaskUpdate, mcp.MethodTaskCancel: // SEP-2663, Routing Headers
		if id, ok := msg.ParamString("taskId"); ok {
			return mcp.CheckNamed(h, mcp.HeaderName, id)
		}
	}
	return nil
}

// unsupported is the refusal of a revision that is not served without initialize.
func unsupported(version string) *mcp.Error {
	if v := mcp.Version(version); v.Supported() && v.Era() == mcp.Modern {
		return nil
	}
	fault := mcp.Errorf(mcp.CodeUnsupportedVersion, "Unsupported protocol version")
	fault.Data = []byte(`{"supported":` + supportedVersions + `,"requested":`)
	fault.Data = append(mcp.AppendQuote(fault.Data, version), '}')
	return fault
}

// modernMeta reads the client's description of itself from a modern request (2026-07-28
// basic, Per-request protocol fields).
func (x *Exchange) modernMeta() *mcp.Error {
	version, err := mcp.Unquote(x.Message.Meta(mcp.MetaVersion))
	if err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: _meta must have %s", mcp.MetaVersion)
	}
	if fault := unsupported(version); fault != nil {
		return fault
	}
	capabilities := x.Message.Meta(mcp.MetaCapabilities)
	if !mcp.IsObject(capabilities) {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: _meta must have %s, an object", mcp.MetaCapabilities)
	}
	x.Era, x.Version, x.Capabilities = mcp.Modern, mcp.Version(version), capabilities
	if info := x.Message.Meta(mcp.MetaClientInfo); mcp.IsObject(info) {
		x.ClientInfo = info
	}
	if level := x.Message.Meta(mcp.MetaLogLevel); level != nil {
		text, _ := mcp.Unquote(level)
		if mcp.LogLevel(text) == 0 {
			return mcp.Errorf(mcp.CodeInvalidParams, "Invalid log level")
		}
		x.LogLevel = text
	}
	return nil
}

// Dependency is something without which the gateway cannot decide calls.
type Dependency struct {
	// Name is one word, visible to everybody.
	Name string
	// OK reports whether it is available.
	OK bool
}

// dependencies are what the gateway needs to serve. The first one that is missing names
// the status. Servers are not among them: without one of them the gateway serves the
// others.
func (hf *httpFront) dependencies() []Dependency {
	all := []Dependency{
		{"stopping", hf.g.life.Err() == nil},
		{"audit", hf.g.opts.Auditor.Healthy() == nil},
	}
	if c := hf.g.config.Load(); c.Dependencies != nil {
		all = append(all, c.Dependencies()...)
	}
	return all
}

// readyz reports in one word whether the gateway serves. With verbose it adds a line
// for each dependency. The response is public and holds nothing but these words. readyz
// never waits for a server.
func (hf *httpFront) readyz(w http.ResponseWriter, verbose bool) {
	all := hf.dependencies()
	status, word := http.StatusOK, "ok"
	var lines strings.Builder
	for i, n := range all {
		if !n.OK && status == http.StatusOK {
			status, word = http.StatusServiceUnavailable, n.Name
		}
		if i == 0 { // shutdown is no dependency; the first line reports it
			continue
		}
		state := "ok"
		if !n.OK {
			state = "not ready"
		}
		lines.WriteString("\n" + n.Name + " " + state)
	}
	if verbose {
		word += lines.String()
	}
	writePlainText(w, status, word)
}
