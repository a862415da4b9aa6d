package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// This file is who is signed in to which server, as the command line sees it.

// signDesk brings people to authorization servers and back.
func (in *Daemon) signDesk() *credential.Desk {
	return &credential.Desk{Name: "toolgate", Options: credential.Options{
		Vault: vault{in.Store, in.keys, in.Log}, Logger: in.Log, Changed: in.credentialChanged,
	}}
}

// source returns the credential of a server, nil where it has none of its own.
func (in *Daemon) source(server string) *credential.Source {
	in.mu.Lock()
	defer in.mu.Unlock()
	if s := in.servers[server]; s != nil {
		return s.source
	}
	return nil
}

// Reached notes where the main listener is.
func (in *Daemon) Reached(at string) { in.reach.Store(&at) }

// publicly is where browsers reach the gateway, empty for nowhere that is known.
func (in *Daemon) publicly() string {
	if public := in.begun.Listen.PublicURL; public != "" {
		return strings.TrimRight(public, "/")
	}
	at := in.reach.Load()
	if at == nil {
		return ""
	}
	u, err := url.Parse(*at)
	if err != nil || !oauth.ThisMachine(u.Hostname()) {
		return ""
	}
	return *at
}

// way is how people come back to a gateway that browsers reach at an address.
func way(base, browser string) credential.Way {
	w := credential.Way{Redirect: base + callbackPath, Browser: browser}
	if strings.HasPrefix(base, "https://") {
		w.Document = base + documentPath
	}
	return w
}

// returning is where those come back who sign in on the command line: to the
// gateway, or where browsers do not reach it to a port of this machine, which is
// there for as long as a login may take.
func (in *Daemon) returning() (string, error) {
	if base := in.publicly(); base != "" {
		return base, nil
	}
	in.opening.Lock()
	defer in.opening.Unlock()
	if base := in.publicly(); base != "" {
		return base, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(in.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("open a port for the browser to come back to: %w", err)
	}
	base := "http://" + l.Addr().String()
	in.Reached(base)
	in.Running.Go(func() {
		ctx, cancel := context.WithTimeout(in.ctx, ReturnTime)
		defer cancel()
		if err := serveHTTP(ctx, l, in.signIn()); err != nil {
			in.Log.Warn("the port for browsers is gone", "err", err)
		}
		in.reach.Store(nil)
	})
	return base, nil
}

// ReturnTime is how long the port for browsers is open.
const ReturnTime = 15 * time.Minute

// whose returns the source of a server and the principal that is meant.
func (in *Daemon) whose(server string, who admin.Who) (*credential.Source, string, error) {
	s := in.source(server)
	if s == nil {
		in.mu.Lock()
		_, known := in.servers[server]
		in.mu.Unlock()
		if known {
			return nil, "", fmt.Errorf("nobody signs in to %s: it is shown the headers of the file", server)
		}
		return nil, "", fmt.Errorf("there is no server %q; see `toolgate ls`", server)
	}
	switch set := s.Settings(); {
	case set.Shared && who != (admin.Who{}):
		return nil, "", fmt.Errorf("everyone shares one credential of %s (auth.per); leave --as out", server)
	case set.Shared:
		return s, "", nil
	case who == (admin.Who{}) && in.Identities.Load().Authenticated():
		return nil, "", fmt.Errorf("everyone has a credential of their own for %s; say whose is meant with --as", server)
	case who == (admin.Who{}):
		return s, gate.Local.Key(), nil
	}
	p := gate.Principal{Issuer: who.Issuer, Tenant: cmp.Or(who.Tenant, gate.DefaultTenant), Subject: who.Subject}
	return s, p.Key(), nil
}

// BeginLogin implements [admin.Logins].
func (in *Daemon) BeginLogin(ctx context.Context, server string, who admin.Who) (admin.Begun, error) {
	s, principal, err := in.whose(server, who)
	if err != nil {
		return admin.Begun{}, err
	}
	begun := admin.Begun{Mode: string(s.Settings().Mode)}
	if s.Settings().Mode != credential.OAuth {
		return begun, nil
	}
	base, err := in.returning()
	if err != nil {
		return admin.Begun{}, err
	}
	w := way(base, "")
	begun.Redirect = w.Redirect
	begun.URL, _, err = in.signDesk().Begin(ctx, s, principal, w)
	return begun, err
}

// FinishLogin implements [admin.Logins].
func (in *Daemon) FinishLogin(ctx context.Context, address string) error {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.RawQuery == "" {
		return errors.New("that is not the address that the browser was sent back to: it has code= and state= in it")
	}
	server, err := in.signDesk().Finish(ctx, u.Query(), "", in.source)
	in.Log.Info("a login was finished on the command line", "server", server, "err", err)
	return err
}

// EnterKey implements [admin.Logins].
func (in *Daemon) EnterKey(ctx context.Context, server string, who admin.Who, key string) error {
	s, principal, err := in.whose(server, who)
	if err != nil {
		return err
	}
	return in.signDesk().Enter(ctx, s, principal, key)
}

// Logout implements [admin.Logins].
func (in *Daemon) Logout(ctx context.Context, server string, who admin.Who) (bool, error) {
	s, principal, err := in.whose(server, who)
	if err != nil {
		return false, err
	}
	return in.signDesk().Leave(ctx, s, principal)
}

// Logins implements [admin.Logins].
func (in *Daemon) Logins(ctx context.Context) ([]admin.Login, error) {
	kept, err := in.Store.Credentials().List(ctx)
	if err != nil {
		return nil, err
	}
	out := []admin.Login{}
	for _, s := range in.List() {
		if s.source == nil {
			continue
		}
		set := s.source.Settings()
		listed := false
		for i := range kept {
			r := &kept[i]
			if r.Server != set.Server || set.Shared != (r.Principal == "") {
				continue
			}
			l := loginRow(set, r.Principal)
			l.State, l.Since, l.At = "signed_in", &r.SavedAt, r.Issuer
			if st, err := s.source.State(ctx, r.Principal); err == nil && st.Needed {
				l.State, l.Why = "needs_login", st.Why
			}
			out, listed = append(out, l), true
		}
		for _, principal := range s.waiting(kept) {
			l := loginRow(set, principal)
			l.State, l.Why = "needs_login", "this caller has not signed in"
			out, listed = append(out, l), true
		}
		if listed || !set.Shared && in.Identities.Load().Authenticated() {
			continue
		}
		principal := ""
		if !set.Shared {
			principal = gate.Local.Key()
		}
		if st, err := s.source.State(ctx, principal); err == nil && st.Needed {
			l := loginRow(set, principal)
			l.State, l.Why = "needs_login", st.Why
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b admin.Login) int { return strings.Compare(a.Server, b.Server) })
	return out, nil
}

// waiting are the callers who have to sign in to a server of whom nothing is kept.
func (s *runningServer) waiting(kept []store.CredentialRecord) []string {
	fleet, ok := s.upstream.(*upstream.Fleet)
	if !ok || !peopleSignIn(s.source) {
		return nil
	}
	_, needed := fleet.Logins()
	return slices.DeleteFunc(needed, func(principal string) bool {
		return slices.ContainsFunc(kept, func(r store.CredentialRecord) bool { return r.Server == s.Name() && r.Principal == principal })
	})
}

// loginRow is a row about a principal, without its state.
func loginRow(set credential.Settings, principal string) admin.Login {
	l := admin.Login{Server: set.Server, Mode: string(set.Mode), Who: "everyone"}
	if p, ok := gate.ParsePrincipal(principal); ok {
		l.Who, l.Tenant, l.Issuer = p.Subject, p.Tenant, p.Issuer
	}
	return l
}

var _ http.Handler = (*signInDoor)(nil)
