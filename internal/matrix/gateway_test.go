package matrix

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/upstream"
)

// target is one server as the gateway mounts it. The same kind of server is
// mounted more than once where features need different isolations.
type target struct {
	kind      kind
	isolation upstream.Isolation
	server    *scripted
	mounted   *upstream.Server
}

// namespace is what stands before the names of the server.
func (t *target) namespace() string { return t.server.name }

// tool is the exposed name of a tool or prompt.
func (t *target) tool(name string) string { return t.namespace() + "__" + name }

// uri is the exposed form of a URI.
func (t *target) uri(uri string) string {
	if rest, ok := strings.CutPrefix(uri, "ui://"); ok {
		return "ui://" + t.namespace() + "+" + rest
	}
	return t.namespace() + "+" + uri
}

// rig is one running gateway with all servers behind it.
type rig struct {
	gateway *proxy.Gateway
	base    string // URL of its listener
	board   *board
	targets map[kind]map[upstream.Isolation]*target
	workers []worker
	entries *entries // of the audit log

	processes *processes // of the servers on stdio

	life    context.Context
	http    *http.Client
	running sync.WaitGroup
	changed chan struct{} // a server's listing or state is another; capacity 1
}

// worker is one principal. It runs one cell at a time, so that what a server
// asks on a connection of its own belongs to that cell.
type worker struct {
	key      string
	identity *gate.Identity
}

// isolations are how a kind of server is mounted. What a server asks for roots
// belongs to one session only (DESIGN 5), and a log message on the stdout of a
// modern process, which carries nothing that tells whose it is, to one
// principal.
func isolations(k kind) []upstream.Isolation {
	switch {
	case !k.modern():
		return []upstream.Isolation{upstream.IsolateAuto, upstream.IsolateSession}
	case k.over == overStdio:
		return []upstream.Isolation{upstream.IsolateAuto, upstream.IsolatePrincipal}
	}
	return []upstream.Isolation{upstream.IsolateAuto}
}

// startTime bounds the start of all servers.
const startTime = 2 * time.Minute

// setup says what a rig consists of.
type setup struct {
	workers int
	servers []kind                          // nil is one of each
	mounts  func(kind) []upstream.Isolation // nil is isolations
	conns   int                             // connections or processes per server; 0 is enough for all
	limits  proxy.Limits
	log     *logText // takes the gateway's log; nil is none
	audit   string   // path of the audit log; empty is one that nobody reads
}

// startRig starts the gateway and its servers, as cmd/toolgate does.
func startRig(t *testing.T, of setup) *rig {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after everything has ended
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &rig{
		board: &board{cells: make(map[string]*cell)}, targets: make(map[kind]map[upstream.Isolation]*target),
		life: ctx, changed: make(chan struct{}, 1), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	log := slog.New(slog.DiscardHandler)
	if of.log != nil {
		log = of.log.logger()
	}
	if *trace {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	keys := r.addWorkers(t, of.workers)
	if of.audit == "" {
		of.audit = filepath.Join(t.TempDir(), "audit.jsonl")
	}
	r.makeGateway(t, keys, log, of)
	r.mount(t, log, of)
	r.listen(t)
	t.Cleanup(func() { // before all that it needs to end well
		cancel()
		r.http.CloseIdleConnections()
		r.running.Wait()
	})
	r.running.Go(func() { _ = r.gateway.Run(ctx) })
	for _, byIsolation := range r.targets {
		for _, to := range byIsolation {
			r.running.Go(func() { _ = to.mounted.Run(ctx) })
		}
	}
	r.settle(t)
	return r
}

func (r *rig) addWorkers(t *testing.T, n int) *auth.Keys {
	t.Helper()
	var all []auth.Key
	for i := range n {
		text, sum := auth.Generate()
		all = append(all, auth.Key{ID: fmt.Sprintf("w%d", i), SHA256: sum, Subject: fmt.Sprintf("worker%d", i)})
		r.workers = append(r.workers, worker{key: text})
	}
	keys, err := auth.NewKeys(all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.workers {
		r.workers[i].identity = keys.Lookup(r.workers[i].key)
	}
	return keys
}

func (r *rig) makeGateway(t *testing.T, keys *auth.Keys, log *slog.Logger, of setup) {
	t.Helper()
	entries, err := audit.Open(of.audit, audit.Options{Logger: log, Key: auditKey})
	if err != nil {
		t.Fatal(err)
	}
	auditing, stop := context.WithCancel(context.Background())
	audited := make(chan error, 1)
	go func() { audited <- entries.Run(auditing) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-audited, entries.Close()); err != nil {
			t.Errorf("the audit log: %v", err)
		}
	})
	r.entries = newEntries(entries)
	secret := sha256.Sum256([]byte(t.Name()))
	ring, err := seal.NewKeyring(seal.Key{ID: "k1", Secret: secret[:]})
	if err != nil {
		t.Fatal(err)
	}
	r.gateway, err = proxy.New(proxy.Options{
		Authenticator: keys, Auditor: r.entries, Keys: ring, Logger: log, Version: "matrix", Limits: of.limits,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Changed implements upstream.Sink.
func (r *rig) Changed(server string) {
	r.gateway.Changed(server)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Happened implements upstream.Sink.
func (r *rig) Happened(ev mcp.Event) { r.gateway.Happened(ev) }

// mount starts the servers, each in every isolation, and mounts them all.
func (r *rig) mount(t *testing.T, log *slog.Logger, of setup) {
	t.Helper()
	if of.servers == nil {
		of.servers = kinds()
	}
	if of.mounts == nil {
		of.mounts = isolations
	}
	if of.conns == 0 { // one per worker and, where sessions are kept apart, for those of its clients
		of.conns = 8 * (len(r.workers) + 4)
	}
	listener := listenLoopback(t)
	children := &processes{listener: listener, servers: make(map[string]*scripted)}
	r.processes = children
	var mounts []proxy.Mount
	for _, k := range of.servers {
		r.targets[k] = make(map[upstream.Isolation]*target)
		for _, isolation := range of.mounts(k) {
			name := k.slug()
			if isolation != upstream.IsolateAuto {
				name += "-" + string(isolation[:4])
			}
			s := newScripted(k, name, r.board)
			s.lastWord = isolation == upstream.IsolateAuto // both ways are about
			children.servers[name] = s
			spec := upstream.Spec{
				Key: name, Isolation: isolation, Questions: upstream.Questions{Sampling: true, Elicitation: true, Roots: true},
				Plain:  upstream.PlainAuto,
				Limits: upstream.Limits{Conns: of.conns},
			}
			r.reach(t, &spec, s, listener.Addr().String())
			server := upstream.New(spec, upstream.Options{
				Sink: r, Credential: upstream.NewStatic(nil), Logger: log, Identity: proxy.Implementation("matrix"),
			})
			r.targets[k][isolation] = &target{kind: k, isolation: isolation, server: s, mounted: server}
			mounts = append(mounts, proxy.Mount{
				Backend: server, Namespace: name, Concurrency: 64, PerSession: isolation == upstream.IsolateSession,
				Questions: proxy.Questions{Sampling: true, Elicitation: true, Roots: true},
			})
		}
	}
	carried := make(chan struct{})
	go func() {
		defer close(carried)
		children.run()
	}()
	t.Cleanup(func() {
		listener.Close()
		<-carried
	})
	r.gateway.Apply(proxy.Config{Mounts: mounts, Chain: gate.NewChain(gate.Open{}), Limiter: budget.Unlimited()})
}

// reach fills in how the gateway gets at a server.
func (r *rig) reach(t *testing.T, spec *upstream.Spec, s *scripted, children string) {
	t.Helper()
	var handler http.Handler
	path := ""
	switch s.kind.over {
	case overStdio:
		spec.Transport, spec.Command = upstream.Stdio, os.Args[0]
		spec.Env = []string{childVariable + "=" + children + " " + s.name}
		return
	case overSSE:
		spec.Transport, path = upstream.SSE, "/sse"
		handler = &sseServer{s: s, peers: make(map[string]*ssePeer)}
	case overStreamable:
		spec.Transport, path = upstream.Streamable, "/mcp"
		h := &streamServer{s: s, sessions: make(map[string]*httpSession)}
		if s.kind.modern() {
			h.whole = s.connect(func([]byte) {})
		}
		handler = h
	}
	listener := listenLoopback(t)
	spec.URL = "http://" + listener.Addr().String() + path
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: startTime}
	r.serve(t, srv, listener)
}

// serve runs an HTTP server until the gateway, which is its client or is
// served by it, has ended.
func (r *rig) serve(t *testing.T, srv *http.Server, listener net.Listener) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("an HTTP server ended: %v", err)
		}
	})
}

func (r *rig) listen(t *testing.T) {
	t.Helper()
	listener := listenLoopback(t)
	r.base = "http://" + listener.Addr().String()
	r.serve(t, proxy.NewServer(r.gateway.Handler()), listener)
}

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// settle waits until every server is ready and its lists are in the catalog.
func (r *rig) settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for {
		var waiting []string
		for _, byIsolation := range r.targets {
			for _, to := range byIsolation {
				if listing, status := to.mounted.Listing(); listing == nil || status.State != mcp.Ready && status.State != mcp.Degraded {
					waiting = append(waiting, fmt.Sprintf("%s is %s: %s", to.namespace(), status.State, status.Reason))
				}
			}
		}
		if len(waiting) == 0 {
			r.gateway.Settle(ctx)
			return
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			t.Fatalf("servers that did not start:\n%s", strings.Join(waiting, "\n"))
		}
	}
}

// strays are the rules that were broken outside of every cell.
func (r *rig) strays() []string {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	return slices.Clone(r.board.strays)
}

// connect opens a client of a kind for a worker; capabilities are those that it
// declares, raw.
func (r *rig) connect(ctx context.Context, k kind, w worker, name, capabilities string) (*client, error) {
	c := &client{
		kind: k, name: name, capabilities: capabilities, pending: make(map[string]*request),
		tokens: make(map[string]*request), questions: make(map[string]bool), changed: make(chan struct{}),
	}
	c.life, c.end = context.WithCancel(r.life)
	over := func() httpLink { return httpLink{c: c, base: r.base, key: w.key, http: r.http} }
	switch k.over {
	case overStdio:
		r.pipe(c, w)
	case overSSE:
		l := &sseLink{httpLink: over()}
		c.link = l
		if err := l.open(ctx); err != nil {
			return nil, err
		}
	case overStreamable:
		c.link = &streamLink{httpLink: over()}
	}
	if err := c.greet(ctx); err != nil {
		c.close()
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return c, nil
}

// pipe connects a client to the gateway's stdio side.
func (r *rig) pipe(c *client, w worker) {
	fromClient, toGateway := io.Pipe()
	fromGateway, toClient := io.Pipe()
	l := &stdioLink{c: c, in: toGateway}
	c.link = l
	l.all.Go(func() {
		_ = r.gateway.ServeStdio(r.life, w.identity, proxy.Scope{}, fromClient, toClient)
		toClient.Close()
	})
	l.all.Go(func() { l.read(fromGateway) })
}

// greet opens the conversation as the revision does it.
func (c *client) greet(ctx context.Context) error {
	if c.kind.modern() {
		got, err := c.do(ctx, mcp.MethodDiscover, nil)
		if err == nil && got.fault != nil {
			err = got.fault
		}
		c.offered = mcp.Lookup(got.result, "capabilities")
		return err
	}
	got, err := c.do(ctx, mcp.MethodInitialize, []byte(`{"protocolVersion":"`+string(c.kind.rev)+`","capabilities":`+c.capabilities+`,"clientInfo":`+c.info()+`}`))
	if err != nil {
		return err
	}
	c.offered = mcp.Lookup(got.result, "capabilities")
	if version, _ := mcp.LookupString(got.result, "protocolVersion"); version != string(c.kind.rev) {
		return fmt.Errorf("the gateway answered the revision %q: %s", version, got.result)
	}
	if err := c.link.send(mcp.AppendNotification(nil, mcp.NotifyInitialized, nil), nil); err != nil {
		return err
	}
	return c.link.stream()
}

// close ends the client; nothing of it is left afterwards.
func (c *client) close() {
	c.link.close()
	c.end()
	c.running.Wait()
}
