package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/listen"
	"github.com/toolgate/toolgate/internal/failure"
)

// sideConnections is how many connections the administration and the metrics may
// have over TCP, each.
const sideConnections = 256

// ServeControl serves the control socket.
func (in *Daemon) ServeControl(ctx context.Context) error {
	token, err := in.State.Secret("admin.token")
	if err != nil {
		return err
	}
	l, err := admin.Listen(in.State.Socket)
	if err != nil {
		return fmt.Errorf("open the control socket: %w", err)
	}
	defer os.Remove(in.State.Socket)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return listen.Serve(ctx, l, admin.Handler(in.Control(), token)) })
	group.Go(func() error { return in.serveAdmin(ctx, token) })
	return group.Wait()
}

// serveAdmin serves the control side on the address of listen.admin as well,
// less what belongs to this machine's own user: to speak MCP without a
// credential.
func (in *Daemon) serveAdmin(ctx context.Context, token string) error {
	address := in.begun.Listen.Admin
	if address == "" {
		return nil
	}
	if !build.Loopback(address) && in.begun.Listen.TLS.Cert == "" {
		return failure.Newf(failure.Config, "listen.admin: %s is not of this machine alone, where the admin token would be sent in the clear; set listen.tls, or an address such as 127.0.0.1:7778", address)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return failure.Newf(failure.Unreachable, "listen.admin: %w; write another address, or leave it out", err)
	}
	certs, err := listen.NewCertificates(in.Current())
	if err != nil {
		l.Close()
		return err
	}
	return listen.NewFront(l, certs, sideConnections, in.Log).Serve(ctx, admin.Strangers(admin.Remote(admin.Handler(in.Control(), token))), func() time.Duration { return 0 })
}

// ServeMetrics serves /metrics on its own address. The default address may be
// taken by another gateway, which is no reason not to start.
func (in *Daemon) ServeMetrics(ctx context.Context) error {
	c := in.Current()
	address := c.Toolgate.Listen.Metrics
	if address == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		if c.Origin("listen.metrics").Kind == tree.OriginDefault {
			in.Log.Warn("no metrics: the default address is in use", "address", address)
			return nil
		}
		return failure.Newf(failure.Unreachable, "listen.metrics: %w; write another address, or \"\" to serve no metrics", err)
	}
	token, err := in.State.Secret("admin.token")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", in.Metrics.Handler())
	return listen.NewFront(l, nil, sideConnections, in.Log).Serve(ctx, listen.Metrics(mux, address, token), func() time.Duration { return 0 })
}

// WatchFiles reloads when a file of the configuration changes.
func (in *Daemon) WatchFiles(ctx context.Context) error {
	files := in.Current().Files
	if len(files) == 0 {
		return nil
	}
	w := config.Watcher{Files: files, Logger: in.Log, OnChange: func(context.Context) []string {
		if _, err := in.TakeFile(false); err != nil {
			return nil
		}
		return in.Current().Files
	}}
	return w.Run(ctx)
}

// WatchSignals reloads on SIGHUP, as a person asked for it.
func (in *Daemon) WatchSignals(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, reloadSignals...)
	defer signal.Stop(hup)
	for {
		select {
		case <-hup:
			_, _ = in.reloadAs("signal", nil) // logged there
		case <-ctx.Done():
			return nil
		}
	}
}
