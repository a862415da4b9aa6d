package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/home"
	"github.com/toolgate/toolgate/internal/daemon/listen"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/proxy"
)

// sideConnections is how many connections the administration and the metrics may
// have over TCP, each.
const sideConnections = 256

// Handler is everything that the main listener serves. Where there is no webhook, its
// path is like any other.
func (d *Daemon) Handler() http.Handler {
	secret := func() string {
		a := d.Current().Toolgate.Approvals
		if !a.Posts() {
			return ""
		}
		return a.Webhook.Secret.Reveal()
	}
	gateway := d.homePage(d.gateway.Handler())
	answers, signIn := d.gateway.CountFailures(d.approvals.service.Callback(secret, d.approvals.decideByWebhook)), d.gateway.CountFailures(d.signIn)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, approval.CallbackPath) && secret() != "" {
			answers.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, signin.Path) {
			signIn.ServeHTTP(w, r)
			return
		}
		gateway.ServeHTTP(w, r)
	})
}

// homePage puts the page for browsers before the handler of the gateway.
func (d *Daemon) homePage(gateway http.Handler) http.Handler {
	return home.Page(gateway, home.Options{
		URL:   func() string { return strings.TrimRight(d.settings.boot.Listen.PublicURL, "/") },
		Hosts: d.settings.boot.Listen.Hosts,
		Keys:  d.identities.Authenticated,
		Clients: func(url string, keys bool) []home.Client {
			if d.opts.HomeClients == nil {
				return nil
			}
			return d.opts.HomeClients(url, keys)
		},
	})
}

// ServeClients serves what [Daemon.Handler] does on the main listener until the context
// ends, and then as long as calls may take to finish. certs is nil for plain HTTP. People
// are sent to this listener to sign in.
func (d *Daemon) ServeClients(ctx context.Context, l net.Listener, certs *listen.Certificates) error {
	c := d.Current()
	d.signIn.Reached(build.ServerURL(c, l.Addr()))
	front := listen.NewFront(l, certs, listen.Connections(c.Toolgate.Limits.Connections), d.log)
	front.Trust(build.Proxies(c))
	return front.Serve(ctx, d.Handler(), d.DrainTime)
}

// errEnding is the cause of the end of a stream that ends with its gateway. For the calls on it
// that is a cancellation.
var errEnding = fmt.Errorf("the gateway ends: %w", context.Canceled)

// ServeStream serves a client on a stream of lines, as the owner of an API key or token
// and with a view ([proxy.ScopeOfView]), until ctx or the gateway ends or the stream does;
// it closes the stream then. It returns at once, with an error when nobody has the key or
// there is no such view.
func (d *Daemon) ServeStream(ctx context.Context, key, view string, stream io.ReadWriteCloser) error {
	scope, err := scopeOf(view)
	if err != nil {
		return err
	}
	id, err := d.identities.Identity(ctx, key)
	if err != nil {
		return err
	}
	d.tasks.Go(func() {
		own, end := context.WithCancelCause(context.WithoutCancel(ctx))
		defer end(nil)
		defer context.AfterFunc(ctx, func() { end(errEnding) })()
		_ = d.gateway.ServeStdio(own, id, scope, stream, stream)
		stream.Close()
	})
	return nil
}

// scopeOf returns the scope of a view.
func scopeOf(view string) (proxy.Scope, error) {
	scope, ok := proxy.ScopeOfView(view)
	if !ok {
		return scope, failure.Newf(failure.Usage, "there is no view %q", view)
	}
	return scope, nil
}

// ServeControl serves the control socket, and says in the state folder that this gateway
// runs. url is that of the main listener; empty without one. listening is called once
// commands reach this gateway.
func (d *Daemon) ServeControl(ctx context.Context, url string, listening func()) error {
	token, err := d.state.Secret("admin.token")
	if err != nil {
		return err
	}
	l, err := admin.Listen(d.state.Socket)
	if err != nil {
		return fmt.Errorf("open the control socket: %w", err)
	}
	defer os.Remove(d.state.Socket)
	c := d.Current()
	note := &statedir.Running{PID: os.Getpid(), Config: resolved(c.Path), URL: url, Version: version.Version, Started: d.started}
	for _, f := range c.With {
		note.With = append(note.With, resolved(f.Path))
	}
	withdraw, err := d.state.Announce(note)
	if err != nil {
		d.log.Warn("commands that name no file do not find this gateway", "err", err)
	} else {
		defer withdraw()
	}
	listening()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return listen.Serve(ctx, l, admin.Handler(d.Control(), token)) })
	group.Go(func() error { return d.serveAdmin(ctx, token) })
	return group.Wait()
}

// resolved returns the absolute path of a file without links, from which its state folder
// is found wherever the links lead later; empty stays empty.
func resolved(path string) string {
	if path == "" {
		return ""
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	return abs
}

// serveAdmin serves the control side on the address of listen.admin as well,
// less what belongs to this machine's own user: to speak MCP without a
// credential.
func (d *Daemon) serveAdmin(ctx context.Context, token string) error {
	address := d.settings.boot.Listen.Admin
	if address == "" {
		return nil
	}
	if !loopback.Address(address) && d.settings.boot.Listen.TLS.Cert == "" {
		return failure.Newf(failure.Config, "listen.admin: %s is not of this machine alone, where the admin token would be sent in the clear; set listen.tls, or an address such as 127.0.0.1:7778", address)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return failure.Newf(failure.Unreachable, "listen.admin: %w; write another address, or leave it out", err)
	}
	certs, err := listen.NewCertificates(d.Current())
	if err != nil {
		l.Close()
		return err
	}
	return listen.NewFront(l, certs, sideConnections, d.log).Serve(ctx, admin.RefuseDescendants(admin.Remote(admin.Handler(d.Control(), token))), func() time.Duration { return 0 })
}

// ServeMetrics serves /metrics on its own address. The default address may be
// taken by another gateway, which is no reason not to start.
func (d *Daemon) ServeMetrics(ctx context.Context) error {
	c := d.Current()
	address := c.Toolgate.Listen.Metrics
	if address == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		if c.Origin("listen.metrics").Kind == tree.OriginDefault {
			d.log.Warn("no metrics: the default address is in use", "address", address)
			return nil
		}
		return failure.Newf(failure.Unreachable, "listen.metrics: %w; write another address, or \"\" to serve no metrics", err)
	}
	token, err := d.state.Secret("admin.token")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", d.metrics.Handler())
	return listen.NewFront(l, nil, sideConnections, d.log).Serve(ctx, listen.Metrics(mux, address, token), func() time.Duration { return 0 })
}

// WatchFiles reloads when a file of the configuration changes.
func (d *Daemon) WatchFiles(ctx context.Context) error {
	files := d.Current().Files
	if len(files) == 0 {
		return nil
	}
	w := config.Watcher{Files: files, Logger: d.log, OnChange: func(context.Context) []string {
		if _, err := d.TakeFile(false); err != nil {
			return nil
		}
		return d.Current().Files
	}}
	return w.Run(ctx)
}

// WatchSignals reloads on SIGHUP, as a person asked for it.
func (d *Daemon) WatchSignals(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, reloadSignals...)
	defer signal.Stop(hup)
	for {
		select {
		case <-hup:
			_, _ = d.reloads.as("signal", nil) // logged there
		case <-ctx.Done():
			return nil
		}
	}
}
