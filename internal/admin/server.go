package admin

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Server is what `ls` shows of one upstream server.
type Server struct {
	Name      string  `json:"name"`
	Namespace string  `json:"namespace"`
	Kind      string  `json:"kind"`
	State     string  `json:"state"`
	Reason    string  `json:"reason,omitempty"`
	Stale     bool    `json:"stale,omitempty"`
	Era       string  `json:"era,omitempty"`
	Version   string  `json:"protocol_version,omitempty"`
	Tools     int     `json:"tools"`
	Prompts   int     `json:"prompts"`
	Resources int     `json:"resources"`
	Templates int     `json:"resource_templates"`
	Tokens    int     `json:"tokens"`
	Seconds   float64 `json:"seconds"` // time in the state
	// Breaker is open or half-open while the server is not called, or hardly called,
	// because it keeps failing; otherwise empty.
	Breaker string `json:"breaker,omitempty"`
	// Pending names what changed in the file and waits for a reload by a person.
	Pending []string `json:"pending,omitempty"`
	// Sandbox names what confines the process of a server, or what the tools of code run,
	// or is "none"; empty for a server that is not started here.
	Sandbox string `json:"sandbox,omitempty"`
	// Gateway is the id of the gateway where the process runs of a server that several share.
	Gateway string `json:"gateway,omitempty"`
	// Moving tells that the process of such a server is about to run at another gateway.
	Moving bool `json:"moving,omitempty"`
	// SignIns says who has signed in to a server with credentials per caller; nil for
	// every other server.
	SignIns *SignIns `json:"sign_ins,omitempty"`
	// Unreviewed are its definitions that nobody has accepted; nil if there are none.
	Unreviewed *Unreviewed `json:"unreviewed,omitempty"`
}

// Unreviewed are definitions of a server that nobody has accepted.
type Unreviewed struct {
	Held       int `json:"held"`       // not served before somebody accepts them
	Suspicious int `json:"suspicious"` // of these, those that look like prompt injection
	Adopted    int `json:"adopted"`    // new or changed since the gateway started, and served
	// HeldNames and AdoptedNames are the first of them, at most 100 each.
	HeldNames    []string `json:"held_names,omitempty"`
	AdoptedNames []string `json:"adopted_names,omitempty"`
	// Fix says what to do.
	Fix string `json:"fix"`
}

// SignIns are the recent callers of a server.
type SignIns struct {
	SignedIn int `json:"signed_in"`
	Needed   int `json:"needed"` // who have to sign in
	// Who are the first of these, at most 20.
	Who []string `json:"who"`
}

// Status is what `ls` shows of a running gateway.
type Status struct {
	// Servers is the state of every server, sorted by name.
	Servers []Server `json:"servers"`
	// Pending names settings that changed in the file and wait for a reload by a person.
	Pending []string `json:"pending"`
	// AtNextStart names settings that changed in the file and that a gateway reads only
	// when it starts.
	AtNextStart []string `json:"at_next_start"`
	// Mode is the operating mode.
	Mode *Mode `json:"mode,omitempty"`
	// NotReady is one word for what the gateway needs to decide and lacks. Detail says
	// what is wrong with it and what to do. Both are empty if nothing is missing.
	NotReady string `json:"not_ready,omitempty"`
	Detail   string `json:"detail,omitempty"`
	// Alarms are rules of the configuration that cannot be meant that way, what cannot be
	// decided because of them, and a file that cannot be put in force.
	Alarms []string `json:"alarms,omitempty"`
	// PolicyFailures are capabilities that the policy could not decide about recently.
	PolicyFailures []PolicyFailure `json:"policy_failures,omitempty"`
	// Misfits are steps of declared tools that fit no tool as its server lists it.
	Misfits []string `json:"misfits,omitempty"`
}

// PolicyFailure is a capability that the policy could not decide about.
type PolicyFailure struct {
	Name string `json:"name"` // exposed name
	What string `json:"what"` // for a person
}

// Reloaded is the result of a reload.
type Reloaded struct {
	// File is the configuration, empty for the demo.
	File string `json:"file"`
	// With are the further files, whose servers join those of File.
	With []string `json:"with,omitempty"`
	// Applied names what changed.
	Applied []string `json:"applied"`
	// Pending names what an automatic reload left; it is empty after a reload by a
	// person.
	Pending []string `json:"-"`
	// AtNextStart is as in [Status].
	AtNextStart []string `json:"at_next_start"`
	// Warnings are what the change has left behind.
	Warnings []string `json:"warnings,omitempty"`
}

// Gateway is what the control side needs from a running gateway.
type Gateway interface {
	// Status returns what `ls` shows.
	Status() Status
	// Reload reads the configuration again because a person asked for it.
	Reload() (Reloaded, error)
	// MakeRoom ends the gateway soon so that another one can take over, or returns why it
	// does not.
	MakeRoom() error
	// ServeStdio serves one MCP client until it or the context ends. key is its API key,
	// empty if it has none, and view what its list of tools holds, empty for all. If the key is not accepted, it calls refuse instead of
	// serving.
	ServeStdio(ctx context.Context, key, view string, accept func() (io.Reader, io.Writer, error), refuse func(error)) error
}

// Headers of the control protocol.
const (
	headerToken  = "Toolgate-Token"
	headerAPIKey = "Toolgate-Api-Key"
	headerView   = "Toolgate-View"
	upgradeStdio = "toolgate-stdio"
)

// Admitter is a [Gateway] that some callers may administer with a credential of their
// own.
type Admitter interface {
	// Admit returns the gateway as the sender of a request may administer it. It looks at
	// the Authorization header of the request, and at the connection, to which tokens may
	// be bound. The error is [ErrNotAdmin], wrapped, for a known caller without the role;
	// [ErrLater], wrapped, if this cannot be determined at the moment; and another one
	// for an invalid credential.
	Admit(r *http.Request) (Gateway, error)
}

// Errors of an [Admitter].
var (
	ErrNotAdmin = errors.New("this caller does not have the admin role; auth.admins says who has")
	ErrLater    = errors.New("the credential cannot be verified at the moment; try again")
)

// Handler serves the control protocol. Every request needs the token, or, for an
// [Admitter], an Authorization header that it admits. An empty token refuses everything
// that is not admitted.
func Handler(g Gateway, token string) http.Handler {
	own, want := routes(g), sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get(headerToken)))
		if token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			own.ServeHTTP(w, r)
			return
		}
		// A certificate or a cookie, which a browser sends automatically, does not
		// express anybody's wish to administer.
		a, ok := g.(Admitter)
		if !ok || r.Header.Get("Authorization") == "" || r.Header.Get(headerToken) != "" {
			writeJSON(w, http.StatusUnauthorized, map[string]any{"error": "the admin token is missing or wrong; if admin.token in the state folder has changed since this gateway started, start the gateway again"})
			return
		}
		as, err := a.Admit(r)
		switch {
		case err == nil:
			Remote(routes(as)).ServeHTTP(w, r)
		case errors.Is(err, ErrNotAdmin):
			writeJSON(w, http.StatusForbidden, map[string]any{"error": ErrNotAdmin.Error()})
		case errors.Is(err, ErrLater):
			writeJSON(w, http.StatusServiceUnavailable, map[string]any{"error": ErrLater.Error()})
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeJSON(w, http.StatusUnauthorized, map[string]any{"error": "the credential is not known"})
		}
	})
}

// routes are all endpoints of the control protocol.
func routes(g Gateway) *http.ServeMux { return register(g).mux }

// register registers the endpoints of what a gateway can be asked.
func register(g Gateway) *router {
	mux := &router{mux: http.NewServeMux()}
	mux.HandleFunc("GET /openapi.json", serveOpenAPI)
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, g.Status())
	})
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, _ *http.Request) {
		did, err := g.Reload()
		if err != nil {
			writeJSON(w, http.StatusUnprocessableEntity, map[string]any{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, did)
	})
	mux.HandleFunc("POST /v1/make-room", func(w http.ResponseWriter, _ *http.Request) {
		if err := g.MakeRoom(); err != nil {
			writeJSON(w, http.StatusConflict, map[string]any{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{})
	})
	mux.HandleFunc("POST /v1/stdio", func(w http.ResponseWriter, r *http.Request) { serveStdio(w, r, g) })
	if e, ok := g.(Explainer); ok {
		handleExplainer(mux, e)
	}
	if p, ok := g.(PolicyReplayer); ok {
		handlePolicy(mux, p)
	}
	if f, ok := g.(Finder); ok {
		handleFinder(mux, f)
	}
	if l, ok := g.(Learner); ok {
		handleLearner(mux, l)
	}
	if c, ok := g.(Cataloger); ok {
		handleCataloger(mux, c)
	}
	if k, ok := g.(ModeKeeper); ok {
		handleMode(mux, k)
	}
	if of, ok := g.(Replicas); ok {
		handleReplicas(mux, of)
	}
	if r, ok := g.(Restarter); ok {
		handleRestarts(mux, r)
	}
	if k, ok := g.(BreakerKeeper); ok {
		handleBreakers(mux, k)
	}
	if l, ok := g.(CatalogLister); ok {
		handleCapabilities(mux, l)
	}
	if a, ok := g.(Approvals); ok {
		handleApprovals(mux, a)
	}
	if u, ok := g.(UsageReader); ok {
		handleUsage(mux, u)
	}
	if a, ok := g.(Adder); ok {
		handleAdder(mux, a)
	}
	if watched, ok := g.(Watched); ok {
		handleWatched(mux, watched)
	}
	if l, ok := g.(Logins); ok {
		handleLogins(mux, l)
	}
	if d, ok := g.(Declarer); ok {
		handleDeclarer(mux, d)
	}
	if r, ok := g.(Registrar); ok {
		handleRegistrar(mux, r)
	}
	if b, ok := g.(Budgets); ok {
		handleBudgets(mux, b)
	}
	registerWork(mux, g)
	if a, ok := g.(AuditReader); ok {
		handleAudit(mux, a)
	}
	if c, ok := g.(CallReader); ok {
		handleCalls(mux, c)
	}
	if t, ok := g.(Tries); ok {
		handleTries(mux, t)
	}
	if o, ok := g.(ConsoleOpener); ok {
		handleConsole(mux, o)
	}
	return mux
}

// registerWork registers the endpoints of what is under way, and of what was looked for.
func registerWork(mux *router, g Gateway) {
	if r, ok := g.(Runs); ok {
		handleRuns(mux, r)
	}
	if s, ok := g.(SearchReader); ok {
		handleSearches(mux, s)
	}
	if j, ok := g.(Jobs); ok {
		handleJobs(mux, j)
	}
}

// Remote is a [Handler] for clients on other machines, or of other users. It has no
// endpoint to speak MCP or to call tools by hand, because these clients have the gateway's
// own endpoints, and none to sign in to the console as an operator of this machine.
func Remote(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stdio" || r.URL.Path == consolePath || r.URL.Path == triesPath || strings.HasPrefix(r.URL.Path, triesPath+"/") { // another spelling is redirected to this one
			writeJSON(w, http.StatusNotFound, map[string]any{"error": "there is nothing at this path"})
			return
		}
		h.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// writeFound writes the answer, or says why there is none.
func writeFound(w http.ResponseWriter, v any, err error) {
	if err != nil {
		writeJSON(w, http.StatusNotFound, map[string]any{"error": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, v)
}

// serveStdio turns the connection into one on which a client speaks MCP.
func serveStdio(w http.ResponseWriter, r *http.Request, g Gateway) {
	var conn net.Conn
	accept := func() (io.Reader, io.Writer, error) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return nil, nil, err
		}
		conn = c
		_ = c.SetDeadline(time.Time{})
		_, err = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+upgradeStdio+"\r\n\r\n")
		return rw.Reader, c, err
	}
	refuse := func(err error) { writeJSON(w, http.StatusForbidden, map[string]any{"error": err.Error()}) }
	// The request's context would end with the client's input, while answers are still on
	// their way.
	_ = g.ServeStdio(context.WithoutCancel(r.Context()), r.Header.Get(headerAPIKey), r.Header.Get(headerView), accept, refuse)
	if conn != nil {
		conn.Close()
	}
}

// Listen opens the control socket for the gateway's own user, except processes that
// descend from this one. It replaces a socket that a dead gateway left. The caller holds
// the lock of the store, so no living gateway has the socket.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := listenPrivate(path)
	if err != nil {
		return nil, err
	}
	return &checked{l, make(chan struct{}, maxTurnedAway)}, nil
}

// exchangeTime is how long an answer on the control socket may take.
const exchangeTime = 30 * time.Second

// Client talks to the gateway behind a control socket.
type Client struct {
	Path  string
	Token string
	// Timeout is how long one exchange may take; 0 is 30 s. A connection of
	// [Client.Stdio] is not bounded by it.
	Timeout time.Duration
}

// ErrNoAnswer tells that the gateway accepted a connection but did not answer, because it
// ended or stopped responding.
var ErrNoAnswer = errors.New("the gateway gives no answer on its control socket")

// ErrNotRunning tells that no gateway answers on the socket.
var ErrNotRunning = errors.New("no gateway is running with this configuration")

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.Path)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			conn.Close()
		}
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, ErrNotRunning
	}
	return conn, conn.SetDeadline(time.Now().Add(cmp.Or(c.Timeout, exchangeTime)))
}

// Status returns what `ls` shows.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var out Status
	err := c.do(ctx, http.MethodGet, "/v1/status", &out)
	return out, err
}

// Reload makes the gateway read its configuration again.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	var out Reloaded
	err := c.do(ctx, http.MethodPost, "/v1/reload", &out)
	return out, err
}

// MakeRoom asks the gateway to end for another one. If it will not, the error is a
// [StaysError]. Every other error may come from a gateway that is about to end.
func (c *Client) MakeRoom(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/v1/make-room", nil)
}

func (c *Client) do(ctx context.Context, method, path string, out any) error {
	return c.doAs(ctx, "", method, path, out)
}

// doAs is do for the holder of an API key; an empty key is none.
func (c *Client) doAs(ctx context.Context, key, method, path string, out any) error {
	var header http.Header
	if key != "" {
		header = http.Header{headerAPIKey: {key}}
	}
	return c.doWith(ctx, header, method, path, out)
}

// doWith is do with additional headers.
func (c *Client) doWith(ctx context.Context, header http.Header, method, path string, out any) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	resp, _, err := c.roundTrip(ctx, conn, method, path, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return apiError(resp)
	}
	if out == nil {
		return nil
	}
	return unanswered(ctx, json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(out))
}

func (c *Client) roundTrip(ctx context.Context, conn net.Conn, method, path string, header http.Header) (*http.Response, *bufio.Reader, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://toolgate"+path, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(r.Header, header)
	r.Header.Set(headerToken, c.Token)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := r.Write(conn); err != nil {
		return nil, nil, unanswered(ctx, err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, r)
	return resp, in, unanswered(ctx, err)
}

// unanswered explains why there is no answer; nil stays nil.
func unanswered(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

func apiError(resp *http.Response) error {
	var body struct {
		Error string `json:"error"`
	}
	_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&body)
	if resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusUnauthorized {
		return &RefusedError{body.Error}
	}
	if resp.StatusCode == http.StatusUnprocessableEntity {
		return &ReloadError{body.Error}
	}
	if resp.StatusCode == http.StatusNotFound && body.Error != "" {
		return &QuestionError{body.Error}
	}
	if resp.StatusCode == http.StatusConflict || resp.StatusCode == http.StatusPreconditionRequired {
		return &StaysError{body.Error}
	}
	if body.Error == "" {
		body.Error = "the gateway answered " + resp.Status
	}
	return errors.New(strings.TrimSpace(body.Error))
}

// QuestionError tells that what a request names does not exist.
type QuestionError struct{ text string }

// Error implements error.
func (e *QuestionError) Error() string { return e.text }

// RefusedError tells that the gateway does not accept the caller.
type RefusedError struct{ Reason string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Reason }

// StaysError tells why nothing changes: a gateway makes no room for another one, a call
// is already decided, or an answer lacks something.
type StaysError struct{ Reason string }

// Error implements error.
func (e *StaysError) Error() string { return e.Reason }

// ReloadError tells why the gateway keeps its old configuration.
type ReloadError struct{ Reason string }

// Error implements error.
func (e *ReloadError) Error() string { return e.Reason }

// Stdio opens a connection on which MCP is spoken line by line, with the identity of the
// API key and the list of tools of the view. The caller closes it.
func (c *Client) Stdio(ctx context.Context, apiKey, view string) (io.ReadWriteCloser, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Connection": {"Upgrade"}, "Upgrade": {upgradeStdio}}
	if apiKey != "" {
		header.Set(headerAPIKey, apiKey)
	}
	if view != "" {
		header.Set(headerView, view)
	}
	resp, in, err := c.roundTrip(ctx, conn, http.MethodPost, "/v1/stdio", header)
	if err != nil {
		conn.Close()
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer conn.Close()
		defer resp.Body.Close()
		return nil, apiError(resp)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, err
	}
	return &joined{Conn: conn, in: in}, nil
}

// joined is a connection whose first bytes may have been read already.
type joined struct {
	net.Conn
	in *bufio.Reader
}

func (j *joined) Read(p []byte) (int, error) { return j.in.Read(p) }

// CloseWrite ends the writing side, so that the gateway sees the end of input.
func (j *joined) CloseWrite() error {
	if u, ok := j.Conn.(*net.UnixConn); ok {
		return u.CloseWrite()
	}
	return nil
}
