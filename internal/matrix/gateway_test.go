//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
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

// rig is a running gateway with all servers behind it, or several.
type rig struct {
	gateways []*daemon.Daemon // one, or several that share a database
	piped    atomic.Uint64    // clients on stdio so far
	base     string           // URL of the listener, or of what is before several
	view     proxy.View       // of the endpoint that clients use
	board    *board
	targets  map[kind]map[upstream.Isolation]*target
	workers  []worker
	audit    string   // path of the audit log of the first
	audits   []string // and of all

	processes *processes // of the servers on stdio

	life context.Context
	http *http.Client
}

// worker is one principal. It runs one cell at a time, so that what a server
// asks on a connection of its own belongs to that cell.
type worker struct {
	key, subject string
}

// isolations are how a kind of server is mounted. What a server asks for roots
// belongs to one session only (ADR 0011), and a log message on the stdout of a
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
	limits  func(*config.Limits)            // changes those of the configuration; nil changes none
	log     *logText                        // takes the gateway's log; nil is none
	home    *daemontest.Home                // nil is one that nobody reads
	view    proxy.View                      // of the endpoint that clients use
	// database is that of three gateways behind a load balancer; empty is one gateway.
	database string
}

// startRig starts the gateway of a configuration file, and its servers.
func startRig(t *testing.T, of setup) *rig {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after everything has ended
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &rig{
		board: &board{cells: make(map[string]*cell)}, targets: make(map[kind]map[upstream.Isolation]*target),
		life: ctx, view: of.view, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	if of.home == nil {
		of.home = daemontest.NewHome(t)
	}
	r.audit = auditLog(of.home)
	servers, settings := r.startServers(t, of)
	section := map[string]any{
		"listen": map[string]any{"metrics": "", "console": ""}, "gate": map[string]any{"open": true}, "auth": map[string]any{"keys": r.addWorkers(of.workers)},
		"servers":  settings,
		"registry": map[string]any{"on_new": "enable", "on_change": "enable"}, // servers change their lists
	}
	homes := []*daemontest.Home{of.home}
	if of.database != "" {
		for len(homes) < replicas {
			homes = append(homes, daemontest.NewHome(t))
		}
		section["store"], section["keys"] = of.database, []any{map[string]any{"id": "k", "file": sealKey(t, of.home)}}
	}
	var ends []func()
	var at []string
	for i, home := range homes {
		section["audit"] = map[string]any{"path": auditLog(home)}
		if of.database != "" {
			section["cluster"] = map[string]any{"advertise": testport.Address(t)}
		}
		home.Write(t, asGateway(servers, i), section)
		listener := listenLoopback(t)
		ends, at, r.audits = append(ends, r.start(t, of, home, listener)), append(at, listener.Addr().String()), append(r.audits, auditLog(home))
	}
	r.base = "http://" + at[0]
	endBalancer := func() {}
	if len(at) > 1 {
		r.base, endBalancer = balance(at)
	}
	t.Cleanup(func() { // before all that it needs to end well
		cancel()
		r.http.CloseIdleConnections()
		for _, end := range ends {
			end()
		}
		endBalancer()
	})
	r.settle(t)
	return r
}

// replicas is how many gateways are behind a load balancer.
const replicas = 3

// asGateway returns the entries of servers for one of several gateways. Servers of
// 2026-07-28 over HTTP tell them apart by it, because their requests have no connection.
func asGateway(servers daemontest.Servers, i int) daemontest.Servers {
	if i == 0 {
		return servers
	}
	own := daemontest.Servers{}
	for name, entry := range servers {
		own[name] = maps.Clone(entry)
		if url, ok := entry["url"].(string); ok && entry["type"] == "http" {
			own[name]["url"] = url + "?gateway=" + strconv.Itoa(i)
		}
	}
	return own
}

// addWorkers makes the principals, and returns the keys that let them in.
func (r *rig) addWorkers(n int) []any {
	var keys []any
	for i := range n {
		text, sum := auth.Generate()
		w := worker{key: text, subject: fmt.Sprintf("worker%d", i)}
		r.workers = append(r.workers, w)
		keys = append(keys, map[string]any{"id": fmt.Sprintf("w%d", i), "sha256": sum, "subject": w.subject})
	}
	return keys
}

// start runs the gateway until end is called.
func (r *rig) start(t *testing.T, of setup, home *daemontest.Home, listener net.Listener) (end func()) {
	t.Helper()
	c, err := daemontest.Read(home.File)
	if err != nil {
		t.Fatal(err)
	}
	if of.limits != nil {
		of.limits(&c.Toolgate.Limits)
	}
	state := home.State()
	if err := os.MkdirAll(state.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	o := daemontest.Options()
	if of.log != nil {
		o.Log = logTo(of.log)
	}
	if *trace {
		o.Log = logTo(os.Stderr)
	}
	gateway, err := daemon.New(r.life, o, c, state, "")
	if err != nil {
		t.Fatal(err)
	}
	r.gateways = append(r.gateways, gateway)
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() { // ends with r.life
		ended <- gateway.Run(r.life, func(ctx context.Context) error {
			close(began)
			return gateway.ServeClients(ctx, listener, nil)
		})
	}()
	select {
	case <-began:
	case err := <-ended:
		t.Fatal(err)
	}
	return func() {
		if err := <-ended; err != nil {
			t.Errorf("the gateway: %v", err)
		}
	}
}

func logTo(out io.Writer) func(*config.Config) (*slog.Logger, *logs.Writer) {
	return func(*config.Config) (*slog.Logger, *logs.Writer) {
		w := logs.NewWriter(out)
		return logs.New(w, logs.JSON, slog.LevelDebug), w
	}
}

// startServers starts the servers, each in every isolation, and returns their entries in
// the configuration and the settings of each.
func (r *rig) startServers(t *testing.T, of setup) (entries daemontest.Servers, settings map[string]any) {
	t.Helper()
	if of.servers == nil {
		of.servers = kinds()
	}
	if of.mounts == nil {
		of.mounts = isolations
	}
	if of.conns == 0 { // one per worker and, where sessions are kept apart, for those of its clients
		of.conns = 8 * (of.workers + 4)
	}
	listener := listenLoopback(t)
	children := &processes{listener: listener, servers: make(map[string]*scripted)}
	r.processes = children
	entries, settings = daemontest.Servers{}, map[string]any{}
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
			entries[name] = r.reach(t, s, listener.Addr().String())
			settings[name] = map[string]any{
				"namespace": name, "isolation": string(isolation), "processes": of.conns, "concurrency": 64,
				"client_requests": map[string]any{"sampling": "allow", "elicitation": "allow", "roots": "allow", "per_hour": 1_000_000},
			}
			r.targets[k][isolation] = &target{kind: k, isolation: isolation, server: s}
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
	return entries, settings
}

// reach returns the entry of a server in a configuration file.
func (r *rig) reach(t *testing.T, s *scripted, children string) map[string]any {
	t.Helper()
	var handler http.Handler
	path, transport := "", ""
	switch s.kind.over {
	case overStdio:
		return map[string]any{"command": os.Args[0], "env": map[string]any{childVariable: children + " " + s.name}}
	case overSSE:
		transport, path = "sse", "/sse"
		handler = &sseServer{s: s, peers: make(map[string]*ssePeer)}
	case overStreamable:
		transport, path = "http", "/mcp"
		h := &streamServer{s: s, sessions: make(map[string]*httpSession)}
		if s.kind.modern() {
			for range replicas {
				h.whole = append(h.whole, s.connect(func([]byte) {}))
			}
		}
		handler = h
	}
	listener := listenLoopback(t)
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: startTime}
	r.serve(t, srv, listener)
	return map[string]any{"type": transport, "url": "http://" + listener.Addr().String() + path}
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

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// settle waits until every server of every gateway is ready and its lists are in the
// catalog, and until the gateways know one another.
func (r *rig) settle(t *testing.T) {
	t.Helper()
	var waiting []string
	if !testwait.Within(startTime, func() bool {
		waiting = nil
		for _, g := range r.gateways {
			for _, s := range g.Control().Status().Servers {
				if s.State != mcp.Ready.String() && s.State != mcp.Degraded.String() {
					waiting = append(waiting, fmt.Sprintf("%s is %s: %s", s.Name, s.State, s.Reason))
				}
			}
			if known := g.Control().Replicas(); len(known) < len(r.gateways) && len(r.gateways) > 1 {
				waiting = append(waiting, fmt.Sprintf("a gateway knows %d of %d", len(known), len(r.gateways)))
			}
		}
		return len(waiting) == 0
	}) {
		t.Fatalf("what is not ready:\n%s", strings.Join(waiting, "\n"))
	}
	for _, g := range r.gateways {
		g.Settle(t.Context())
	}
}

// audited waits until an audit log has an entry that fits, and returns it.
func (r *rig) audited(ctx context.Context, what string, fits func(*audit.Entry) bool) (found audit.Entry, err error) {
	deadline, _ := ctx.Deadline()
	ok := false
	testwait.Within(time.Until(deadline), func() bool {
		for _, path := range r.audits {
			entries, _ := audit.Closed(path) // the end of the file may be half of a line
			if at := slices.IndexFunc(entries, func(e audit.Entry) bool { return fits(&e) }); at >= 0 {
				found, ok = entries[at], true
			}
		}
		return ok || ctx.Err() != nil
	})
	if !ok {
		return audit.Entry{}, fmt.Errorf("waiting for the audit entry of %s: %w", what, context.Cause(ctx))
	}
	return found, nil
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
		kind: k, name: name, capabilities: capabilities, view: r.view, pending: make(map[string]*request),
		tokens: make(map[string]*request), questions: make(map[string]bool), changed: make(chan struct{}),
	}
	c.life, c.end = context.WithCancel(r.life)
	over := func() httpLink { return httpLink{c: c, base: r.base, view: string(r.view), key: w.key, http: r.http} }
	switch k.over {
	case overStdio:
		if err := r.pipe(c, w); err != nil {
			return nil, err
		}
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

// stream is the gateway's end of a client's standard input and output.
type stream struct {
	*io.PipeReader
	*io.PipeWriter
}

// Close implements io.Closer.
func (s stream) Close() error { return errors.Join(s.PipeReader.Close(), s.PipeWriter.Close()) }

// pipe connects a client to the gateway's stdio side.
func (r *rig) pipe(c *client, w worker) error {
	fromClient, toGateway := io.Pipe()
	fromGateway, toClient := io.Pipe()
	l := &stdioLink{c: c, in: toGateway}
	c.link = l
	l.all.Go(func() { l.read(fromGateway) })
	gateway := r.gateways[r.piped.Add(1)%uint64(len(r.gateways))]
	return gateway.ServeStream(r.life, w.key, string(r.view), stream{fromClient, toClient})
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
