package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/console"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/listen"
	"github.com/toolgate/toolgate/internal/daemon/openid"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/proxy/auth"
)

// ConsoleTakenError says that the console has no address: the default one is in use, as by
// another gateway. The gateway can do without.
type ConsoleTakenError struct{ Address string }

func (e *ConsoleTakenError) Error() string {
	return fmt.Sprintf("no console: %s is in use; listen.console takes another address", e.Address)
}

// OpenConsole opens the listener of the console; nil when there is to be none.
func (d *Daemon) OpenConsole(ctx context.Context) (net.Listener, error) {
	c := d.Current()
	address := d.settings.boot.Listen.Console
	if address == "" {
		return nil, nil
	}
	if !loopback.Address(address) && d.settings.boot.Listen.TLS.Cert == "" {
		return nil, failure.Newf(failure.Config, "listen.console: %s is not of this machine alone, where sessions would be sent in the clear; set listen.tls, or an address such as 127.0.0.1:7778", address)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l, nil
	case c.Origin("listen.console").Kind == tree.OriginDefault && errors.Is(err, syscall.EADDRINUSE):
		return nil, &ConsoleTakenError{address}
	}
	return nil, failure.Newf(failure.Unreachable, "listen.console: %w; write another address, or \"\" to serve no console", err)
}

// ConsoleURL is where the console of a listener is.
func (d *Daemon) ConsoleURL(l net.Listener) string {
	return build.Reachable(build.ListenerURL(d.settings.boot.Listen.TLS, l.Addr()))
}

// ServeConsole serves the console on a listener of [Daemon.OpenConsole] until the context
// ends.
func (d *Daemon) ServeConsole(ctx context.Context, l net.Listener) error {
	certs, err := listen.NewCertificates(d.Current())
	if err != nil {
		l.Close()
		return err
	}
	pages := d.pages(d.ConsoleURL(l), loopback.Address(l.Addr().String()), ctx.Done())
	d.console.Store(pages)
	defer d.console.Store(nil)
	return listen.NewFront(l, certs, sideConnections, d.log).Serve(ctx, admin.RefuseDescendants(pages), func() time.Duration { return 0 })
}

// pages returns the console at a URL. local tells that only this machine reaches it. done is
// closed when live views are to end.
func (d *Daemon) pages(at string, local bool, done <-chan struct{}) *console.Console {
	return console.New(console.Options{
		Log: d.log, URL: at, Secure: strings.HasPrefix(at, "https:"), Local: local, Done: done,
		Hosts: d.consoleHosts, Identities: visitors{d}, Failures: d.gateway.CountFailures,
		OpenID: openid.New(openid.Options{Verify: d.identities.OpenID, Issuers: func() []auth.Issuer { return d.Current().Toolgate.Auth.JWT }}),
		From:   build.Proxies(d.Current()).Client,
		Model:  func(id *gate.Identity) console.Model { return d.control(actor{id}) },
	})
}

// consoleHosts are the names that the settings give to this gateway.
func (d *Daemon) consoleHosts() []string {
	l := &d.Current().Toolgate.Listen
	hosts := append([]string{}, l.Hosts...)
	if u, err := url.Parse(l.PublicURL); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	return hosts
}

// ConsoleLink implements [admin.ConsoleOpener].
func (ctl *Control) ConsoleLink() (string, error) {
	pages := ctl.d.console.Load()
	if pages == nil {
		return "", admin.ErrNoConsole
	}
	return pages.Link(), nil
}

// visitors implements [console.Identities].
type visitors struct{ d *Daemon }

// Authenticated implements [console.Identities].
func (v visitors) Authenticated() bool { return v.d.identities.Authenticated() }

// SignIn implements [console.Identities].
func (v visitors) SignIn(r *http.Request, key string) (*gate.Identity, time.Time, error) {
	g, err := v.d.identities.Visit(r.Context(), key)
	return g.Identity, g.Until, err
}

// Now implements [console.Identities]. The rights of the owner of an API key are those of
// the settings in force; those of a token are what it says.
func (v visitors) Now(id *gate.Identity) *gate.Identity {
	if !v.d.identities.Authenticated() {
		return nil
	}
	if now, ok := v.d.identities.Present(id.Key(), id.Credential); ok {
		return now
	}
	if !v.d.identities.Knows(id) {
		return nil
	}
	return id
}

// Settings implements [console.Identities]. There is another set after each change of who may call.
func (v visitors) Settings() any { return v.d.identities.InForce() }

// Role implements [console.Identities].
func (v visitors) Role(id *gate.Identity) console.Role {
	roles := &v.d.Current().Toolgate.Auth
	switch {
	case roles.Admins.Has(id):
		return console.Admin
	case roles.Auditors.Has(id):
		return console.Auditor
	case roles.Viewers.Has(id):
		return console.Viewer
	}
	return console.ViewerOwn
}
