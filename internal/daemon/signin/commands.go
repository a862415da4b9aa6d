package signin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream/credential"
)

// Commands implements [admin.Logins] for `toolgate login`, `logout` and `logins`.
type Commands struct{ s *Service }

// Commands returns the implementation of the login commands.
func (s *Service) Commands() Commands { return Commands{s} }

var _ admin.Logins = Commands{}

// whose returns the credential source of a server and the principal.
func (c Commands) whose(server string, who admin.Who) (*credential.Source, string, error) {
	all := c.s.o.Servers()
	i := slices.IndexFunc(all, func(running Server) bool { return running.Name == server })
	if i < 0 {
		return nil, "", fmt.Errorf("there is no server %q; `toolgate ls` lists them", server)
	}
	s := all[i].Source
	if s == nil {
		return nil, "", fmt.Errorf("%s needs no login: it uses the headers from the file", server)
	}
	switch set := s.Settings(); {
	case set.Shared && who != (admin.Who{}):
		return nil, "", fmt.Errorf("everyone shares one credential of %s (auth.per); leave --as out", server)
	case set.Shared:
		return s, "", nil
	case who == (admin.Who{}) && c.s.o.Callers.Authenticated():
		return nil, "", fmt.Errorf("everyone has a credential of their own for %s; say whose is meant with --as", server)
	case who == (admin.Who{}):
		return s, gate.Local.Key(), nil
	}
	p := gate.Principal{Issuer: who.Issuer, Tenant: cmp.Or(who.Tenant, gate.DefaultTenant), Subject: who.Subject}
	return s, p.Key(), nil
}

// BeginLogin implements [admin.Logins].
func (c Commands) BeginLogin(ctx context.Context, server string, who admin.Who) (admin.Begun, error) {
	s, principal, err := c.whose(server, who)
	if err != nil {
		return admin.Begun{}, err
	}
	begun := admin.Begun{Mode: string(s.Settings().Mode)}
	if s.Settings().Mode != credential.OAuth {
		return begun, nil
	}
	base, err := c.s.returning(ctx)
	if err != nil {
		return admin.Begun{}, err
	}
	w := way(base, "")
	begun.Redirect = w.Redirect
	begun.URL, _, err = c.s.flow().Begin(ctx, s, principal, w)
	return begun, err
}

// FinishLogin implements [admin.Logins].
func (c Commands) FinishLogin(ctx context.Context, address string) error {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.RawQuery == "" {
		return errors.New("that is not the address that the browser was sent back to: it has code= and state= in it")
	}
	server, err := c.s.flow().Finish(ctx, u.Query(), "", c.s.source)
	c.s.o.Log.Info("a login was finished on the command line", "server", server, "err", err)
	return err
}

// EnterKey implements [admin.Logins].
func (c Commands) EnterKey(ctx context.Context, server string, who admin.Who, key string) error {
	s, principal, err := c.whose(server, who)
	if err != nil {
		return err
	}
	return c.s.flow().Enter(ctx, s, principal, key)
}

// Logout implements [admin.Logins].
func (c Commands) Logout(ctx context.Context, server string, who admin.Who) (bool, error) {
	s, principal, err := c.whose(server, who)
	if err != nil {
		return false, err
	}
	return c.s.flow().Leave(ctx, s, principal)
}

// Logins implements [admin.Logins].
func (c Commands) Logins(ctx context.Context) ([]admin.Login, error) {
	kept, err := c.s.o.Store.Credentials().List(ctx)
	if err != nil {
		return nil, err
	}
	out := []admin.Login{}
	for _, s := range c.s.o.Servers() {
		if s.Source == nil {
			continue
		}
		set := s.Source.Settings()
		listed := false
		for i := range kept {
			r := &kept[i]
			if r.Server != set.Server || set.Shared != (r.Principal == "") {
				continue
			}
			l := loginRow(set, r.Principal)
			l.State, l.Since, l.At = "signed_in", &r.SavedAt, r.Issuer
			if st, err := s.Source.State(ctx, r.Principal); err == nil && st.Needed {
				l.State, l.Why = "needs_login", st.Why
			}
			out, listed = append(out, l), true
		}
		for _, principal := range s.waiting(kept) {
			l := loginRow(set, principal)
			l.State, l.Why = "needs_login", "this caller has not signed in"
			out, listed = append(out, l), true
		}
		if listed || !set.Shared && c.s.o.Callers.Authenticated() {
			continue
		}
		principal := ""
		if !set.Shared {
			principal = gate.Local.Key()
		}
		if st, err := s.Source.State(ctx, principal); err == nil && st.Needed {
			l := loginRow(set, principal)
			l.State, l.Why = "needs_login", st.Why
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b admin.Login) int { return strings.Compare(a.Server, b.Server) })
	return out, nil
}

// loginRow returns a row for a principal, without its state.
func loginRow(set credential.Settings, principal string) admin.Login {
	l := admin.Login{Server: set.Server, Mode: string(set.Mode), Who: "everyone"}
	if p, ok := gate.ParsePrincipal(principal); ok {
		l.Who, l.Tenant, l.Issuer = p.Subject, p.Tenant, p.Issuer
	}
	return l
}

// waiting returns the callers who have to sign in to a server and have no stored
// credential.
func (s *Server) waiting(kept []store.CredentialRecord) []string {
	if s.Waiting == nil || !ByPeople(s.Source) {
		return nil
	}
	return slices.DeleteFunc(s.Waiting(), func(principal string) bool {
		return slices.ContainsFunc(kept, func(r store.CredentialRecord) bool { return r.Server == s.Name && r.Principal == principal })
	})
}
