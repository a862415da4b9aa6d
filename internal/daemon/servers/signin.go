package servers

import (
	"context"
	"errors"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/transport"
)

// SignIns returns the servers that run, for who signs in to them.
func (t *Table) SignIns() []signin.Server {
	running := t.list()
	out := make([]signin.Server, len(running))
	for i, s := range running {
		out[i] = signin.Server{Name: s.Name(), Source: s.source}
		if pool, ok := s.upstream.(*upstream.ServerPool); ok {
			out[i].Waiting = func() []string {
				_, needed := pool.Logins()
				return needed
			}
		}
	}
	return out
}

// signedInTo has callers of a mount sent to where they sign in to its server, and
// wait for what they are listed then. Where one token is had without them there is
// nothing to wait for.
func (t *Table) signedInTo(m proxy.Mount, s *credential.Source, to reached) proxy.Mount {
	if s == nil || s.Settings().Shared && !signin.ByPeople(s) {
		return m
	}
	m.SignInTool = upstream.SignInDefinition()
	m.Listed = func(id *gate.Identity, kind mcp.Kind, original string) bool {
		return to.Listed(holder(to, id), kind, original)
	}
	m.Await = func(ctx context.Context, id *gate.Identity, kind mcp.Kind, original string) error {
		return to.Await(ctx, holder(to, id), kind, original)
	}
	if !t.o.SignIn.OffersLink(s) {
		return m
	}
	m.SignIn = func(id *gate.Identity, why error) string {
		if missing, ok := errors.AsType[transport.MissingError](why); why != nil && (!ok || !missing.NeedsLogin()) {
			return ""
		}
		address, err := t.o.SignIn.Link(s.Settings().Server, id.Key())
		if err != nil {
			t.o.Log.Warn("nobody can be sent to sign in", "err", err)
		}
		return address
	}
	return m
}

// CredentialChanged has a server use the new credential of a principal.
func (t *Table) CredentialChanged(server, principal string) {
	for _, s := range t.list() {
		if s.Name() == server && s.source != nil {
			s.upstream.Renewed(principal)
			t.o.CredentialChanged(server)
		}
	}
}

// CredentialsChanged has servers look up every credential again: any of them may be
// another one.
func (t *Table) CredentialsChanged() {
	for _, s := range t.list() {
		if s.source != nil {
			s.source.ForgetAll()
			s.upstream.Wake()
			t.o.CredentialChanged(s.Name())
		}
	}
}
