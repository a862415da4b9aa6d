package signin

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream/credential"
)

// Options are the parts of a running gateway that sign-in needs. All except PublicURL
// are required.
type Options struct {
	Callers *identity.Keeper
	Store   *store.Store
	Keys    *seal.Keyring
	Log     *slog.Logger
	// PublicURL is the URL at which browsers reach the gateway; if empty, the address
	// from [Service.Reached] counts.
	PublicURL string
	// Servers returns the running servers.
	Servers func() []Server
	// Changed is called when the credential of a principal for a server has changed.
	Changed func(server, principal string)
	// Hide keeps a secret out of everything that is shown, until some time after retire
	// is called.
	Hide func(secret string) (retire func())
	// Serve serves a listener until the context ends.
	Serve func(ctx context.Context, l net.Listener, h http.Handler) error
}

// Server is a running server, for sign-in.
type Server struct {
	Name string
	// Source is the server's credential, nil where the headers in the file are all.
	Source *credential.Source
	// Waiting returns the principals who have to sign in; nil means nobody.
	Waiting func() []string
}

// Service lets people sign in to servers. It has the pages for browsers, the links to
// them, and the resulting credentials. It is safe for concurrent use. Make one with
// [New]; [Service.Run] runs it.
type Service struct {
	o       Options
	reach   atomic.Pointer[string] // address for browsers on this machine; nil: none
	opening sync.Mutex             // guards opening the loopback port for callbacks
	ports   chan net.Listener      // listeners for Run to serve
}

// New returns the service of a gateway.
func New(o Options) *Service { return &Service{o: o, ports: make(chan net.Listener)} }

// flow returns the OAuth flow of the gateway.
func (s *Service) flow() *credential.Flow {
	return &credential.Flow{Name: "toolgate", Options: credential.Options{
		Vault: vault{s.o.Store, s.o.Keys, s.o.Log}, Logger: s.o.Log, Changed: s.o.Changed,
	}}
}

// source returns the credential of a server, nil where it has none of its own.
func (s *Service) source(server string) *credential.Source {
	for _, running := range s.o.Servers() {
		if running.Name == server {
			return running.Source
		}
	}
	return nil
}

// Reached sets the address of the main listener.
func (s *Service) Reached(at string) { s.reach.Store(&at) }

// base returns the URL at which browsers reach the gateway, empty if unknown.
func (s *Service) base() string {
	if public := s.o.PublicURL; public != "" {
		return strings.TrimRight(public, "/")
	}
	at := s.reach.Load()
	if at == nil {
		return ""
	}
	u, err := url.Parse(*at)
	if err != nil || !loopback.Host(u.Hostname()) {
		return ""
	}
	return *at
}

// way returns how people come back to a gateway with a given address.
func way(base, browser string) credential.Way {
	w := credential.Way{Redirect: base + callbackPath, Browser: browser}
	if strings.HasPrefix(base, "https://") {
		w.Document = base + documentPath
	}
	return w
}

// returning returns the callback address for logins on the command line: the gateway's
// own or, where browsers cannot reach it, a port of this machine that stays open for
// as long as a login may take.
func (s *Service) returning(ctx context.Context) (string, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if base := s.base(); base != "" {
		return base, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("open a port for the browser to come back to: %w", err)
	}
	select {
	case s.ports <- l:
	case <-ctx.Done():
		l.Close()
		return "", ctx.Err()
	}
	base := "http://" + l.Addr().String()
	s.Reached(base)
	return base, nil
}

// Run serves the ports that logins on the command line need, until the context ends.
func (s *Service) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-s.ports:
			serving.Go(func() { s.serve(ctx, l) })
		}
	}
}

// serve serves a port for as long as a login may take.
func (s *Service) serve(ctx context.Context, l net.Listener) {
	ctx, cancel := context.WithTimeout(ctx, ReturnTime)
	defer cancel()
	if err := s.o.Serve(ctx, l, s); err != nil {
		s.o.Log.Warn("the port for browsers is gone", "err", err)
	}
	s.reach.Store(nil)
}

// ReturnTime is how long the port for browsers is open.
const ReturnTime = 15 * time.Minute

// OffersLink tells whether a person may get a link for a server: the credential must
// be their own, or the gateway has only one principal.
func (s *Service) OffersLink(source *credential.Source) bool {
	return ByPeople(source) && (!source.Settings().Shared || !s.o.Callers.Authenticated())
}

// ByPeople tells whether people provide a server's credential.
func ByPeople(s *credential.Source) bool {
	people := []credential.Mode{credential.OAuth, credential.APIKey}
	return s != nil && slices.Contains(people, s.Settings().Mode)
}
