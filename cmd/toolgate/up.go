package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/cmd/toolgate/admin"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
)

// stopTime is how long requests may finish when the gateway ends, besides the
// calls among them (see [instance.drain]).
const stopTime = 5 * time.Second

func newUp(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "up [FILE]",
		Short: "Serve every server of a file behind one URL",
		Long: `Serve every server of a file behind one URL. The file is a client's own (of
Claude, Cursor, VS Code, ...) or a toolgate.yaml. Without a file anywhere it
serves a few built-in demo tools, offline.`,
		Example: "  toolgate up\n  toolgate up ~/.cursor/mcp.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.up(cmd.Context(), file(args))
		},
	}
	c.Flags().StringVar(&o.listen, "listen", "", "`address` to listen on instead of the configured one, such as 127.0.0.1:0")
	return c
}

func (o *options) up(ctx context.Context, arg string) error {
	began := time.Now()
	o.awaits = true
	c, err := o.loadConfig(arg)
	if err != nil {
		return err
	}
	state, err := openState(c.Path)
	if err != nil {
		return err
	}
	for _, w := range c.Warnings {
		note("warning: %s", w)
	}
	if len(c.Servers)+len(c.Toolgate.Tools) == 0 {
		note("warning: %s", noServers(c))
	}
	for _, s := range c.Skipped {
		note("skipped: %s (line %d): %s", s.Key, s.Line, s.Reason)
	}
	generated, fresh, err := guardKey(c, state)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, c)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}
	in, err := o.takePlace(ctx, c, state, generated)
	if err != nil {
		return err
	}
	if fresh != "" {
		// Only now is it sure to be shown, and only by the holder of the store.
		if err := state.create(guardKeyFile, generated); err != nil {
			in.close()
			return err
		}
	}
	in.progress = newProgress(o, in)
	state.remember(c)
	return in.run(ctx, func(ctx context.Context) error {
		say("toolgate %s  %s\n", version, source(c))
		if fresh != "" {
			say("API key (shown once)  %s\n", fresh)
		}
		group, ctx := errgroup.WithContext(ctx)
		url := ""
		if listener != nil {
			url = serverURL(c, listener.Addr())
			in.reached(url)
			say("MCP      %s/mcp      (older clients: %s/sse)\n", url, url)
			group.Go(func() error { return serveUntil(ctx, listener, in.doors(), in.drainTime) })
		}
		group.Go(func() error { return in.serveControl(ctx) })
		group.Go(func() error { return in.serveMetrics(ctx) })
		group.Go(func() error { return in.watchFiles(ctx) })
		group.Go(func() error { return in.watchSignals(ctx) })
		group.Go(func() error {
			in.introduce(ctx, url, began)
			return nil
		})
		return group.Wait()
	})
}

// takePlace makes the gateway of a configuration. One that serves only clients
// of `toolgate stdio` ends for it, and its clients join this one.
func (o *options) takePlace(ctx context.Context, c *config.Config, state *stateDir, generated string) (*instance, error) {
	token, err := state.secret("admin.token")
	if err != nil {
		return nil, err
	}
	control := &admin.Client{Path: state.socket, Token: token, Timeout: makeRoomTime}
	told := o.quiet
	for end := time.Now().Add(takePlaceTime); ; {
		in, err := newInstance(ctx, o, c, state, generated)
		held, busy := errors.AsType[*store.InUseError](err)
		if !busy || time.Now().After(end) {
			return in, err
		}
		// Without an answer it is just ending, or another one is starting.
		answer := control.MakeRoom(ctx)
		_, stays := errors.AsType[*admin.StaysError](answer)
		if _, refused := errors.AsType[*admin.RefusedError](answer); stays || refused {
			return nil, err
		}
		if !told {
			note("waiting for process %d, which holds %s, to end", held.PID, held.Path)
			told = true
		}
		select {
		case <-time.After(takePlacePause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

const (
	// takePlaceTime is how long the gateway before may take to end.
	takePlaceTime = 30 * time.Second
	// makeRoomTime is how long its answer may take.
	makeRoomTime = 3 * time.Second
	// takePlacePause is shorter than that of clients which look for a gateway,
	// so that they find this one rather than start their own.
	takePlacePause = takeOverPause / 5
)

// source names where the configuration came from.
func source(c *config.Config) string {
	if c.Path == "" {
		return "no configuration found: serving the built-in demo"
	}
	servers := "servers"
	if len(c.Servers) == 1 {
		servers = "server"
	}
	return fmt.Sprintf("%d %s from %s", len(c.Servers), servers, c.Path)
}

// noServers says that a configuration has none, and how one is added.
func noServers(c *config.Config) string {
	return c.Path + " names no server to run; add one such as mcpServers: { name: { command: ... } }"
}

// listen opens the main listener; nil when none is configured.
func listen(ctx context.Context, c *config.Config) (net.Listener, error) {
	if c.Toolgate.Listen.HTTP == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Toolgate.Listen.HTTP)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, exitf(exitUnreachable, "%s is in use; another gateway may be running (try `toolgate ls`), or choose an address with --listen", c.Toolgate.Listen.HTTP)
		}
		return nil, exitf(exitUnreachable, "listen.http: %w; choose an address of this machine that you may use with --listen, such as 127.0.0.1:7777", err)
	}
	return secured(l, c)
}

// secured serves a listener with the certificate of the configuration, if it has
// one. It closes what it refuses.
func secured(l net.Listener, c *config.Config) (net.Listener, error) {
	if c.Toolgate.Listen.TLS.Cert == "" {
		return l, nil
	}
	cert, err := tls.LoadX509KeyPair(c.Toolgate.Listen.TLS.Cert, c.Toolgate.Listen.TLS.Key)
	if err != nil {
		l.Close()
		return nil, exitf(exitConfig, "listen.tls: %w; cert and key must name the PEM files of one certificate and of its key", err)
	}
	own := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if err := askForCertificates(own, c); err != nil {
		l.Close()
		return nil, err
	}
	return tls.NewListener(l, own), nil
}

// askForCertificates has clients asked for certificates where some count. One
// that does not hold good ends the handshake.
func askForCertificates(own *tls.Config, c *config.Config) error {
	path := c.Toolgate.Listen.TLS.ClientCA
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return exitf(exitConfig, "listen.tls.client_ca: %w; name the PEM file of the authorities whose client certificates count", err)
	}
	own.ClientCAs, own.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !own.ClientCAs.AppendCertsFromPEM(text) {
		return exitf(exitConfig, "listen.tls.client_ca: %s holds no certificate in PEM; name the file of the authorities whose client certificates count", path)
	}
	if c.Toolgate.Auth.MTLS.Required {
		own.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return nil
}

// guardKeyFile is the file of the state folder that holds the hash of the
// generated API key.
const guardKeyFile = "api-key.sha256"

// guardKey makes a key for a gateway that others on the network reach and that
// asks nobody who they are. It returns the key's hash, and its text when it is
// new and has to be kept.
func guardKey(c *config.Config, state *stateDir) (sum, fresh string, err error) {
	if c.Toolgate.Listen.HTTP == "" || loopback(c.Toolgate.Listen.HTTP) || c.Toolgate.Authenticates() {
		return "", "", nil
	}
	path := filepath.Join(state.path, guardKeyFile)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fresh, sum = auth.Generate()
		return sum, fresh, nil
	case err != nil:
		return "", "", fmt.Errorf("read the generated API key: %w", err)
	}
	sum = strings.TrimSpace(string(text))
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", "", exitf(exitConfig, "%s is damaged; remove it, and the next start makes a new key", path)
	}
	return sum, "", nil
}

// serveHTTP serves a listener until the context ends, and then as long as
// requests need to finish.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	return serveUntil(ctx, l, h, func() time.Duration { return 0 })
}

// serveUntil is serveHTTP for requests that may need longer by some time, which
// is asked for when the context has ended.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler, longer func() time.Duration) error {
	server := proxy.NewServer(h)
	server.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }() // ends with Shutdown below
	select {
	case err := <-done:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), longer()+stopTime)
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// serveControl serves the control socket.
func (in *instance) serveControl(ctx context.Context) error {
	token, err := in.state.secret("admin.token")
	if err != nil {
		return err
	}
	l, err := admin.Listen(in.state.socket)
	if err != nil {
		return fmt.Errorf("open the control socket: %w", err)
	}
	defer os.Remove(in.state.socket)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveHTTP(ctx, l, admin.Handler(in, token)) })
	group.Go(func() error { return in.serveAdmin(ctx, token) })
	return group.Wait()
}

// serveAdmin serves the control side on the address of listen.admin as well,
// less what belongs to this machine's own user: to speak MCP without a
// credential.
func (in *instance) serveAdmin(ctx context.Context, token string) error {
	address := in.begun.Listen.Admin
	if address == "" {
		return nil
	}
	if !loopback(address) && in.begun.Listen.TLS.Cert == "" {
		return exitf(exitConfig, "listen.admin: %s is not of this machine alone, where the admin token would be sent in the clear; set listen.tls, or an address such as 127.0.0.1:7778", address)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return exitf(exitUnreachable, "listen.admin: %w; write another address, or leave it out", err)
	}
	if l, err = secured(l, in.current()); err != nil {
		return err
	}
	return serveHTTP(ctx, l, admin.Strangers(admin.Remote(admin.Handler(in, token))))
}

// serveMetrics serves /metrics on its own address. The default address may be
// taken by another gateway, which is no reason not to start.
func (in *instance) serveMetrics(ctx context.Context) error {
	c := in.current()
	address := c.Toolgate.Listen.Metrics
	if address == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		if c.Origin("listen.metrics").Kind == config.OriginDefault {
			in.log.Warn("no metrics: the default address is in use", "address", address)
			return nil
		}
		return exitf(exitUnreachable, "listen.metrics: %w; write another address, or \"\" to serve no metrics", err)
	}
	token, err := in.state.secret("admin.token")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", in.metrics.Handler())
	return serveHTTP(ctx, l, metricsDoor(mux, address, token))
}

// watchFiles reloads when a file of the configuration changes.
func (in *instance) watchFiles(ctx context.Context) error {
	files := in.current().Files
	if len(files) == 0 {
		return nil
	}
	w := config.Watcher{Files: files, Logger: in.log, OnChange: func(context.Context) []string {
		if _, err := in.reload(false); err != nil {
			return nil
		}
		return in.current().Files
	}}
	return w.Run(ctx)
}

// watchSignals reloads on SIGHUP, as a person asked for it.
func (in *instance) watchSignals(ctx context.Context) error {
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
