package daemon

import (
	"context"
	"errors"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/listen"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/transport"
	"github.com/toolgate/toolgate/upstream/credential"
)

// This file joins signing in to the servers that run.

// signIns is where people sign in to the servers of a gateway.
func (in *Daemon) signInService() *signin.Service {
	return signin.New(signin.Options{
		Callers: in.Identities, Store: in.Store, Keys: in.keys, Log: in.Log, PublicURL: in.begun.Listen.PublicURL,
		Servers: in.signInServers, Changed: in.credentialChanged, Hide: in.Hidden.Learn, Serve: listen.Serve,
	})
}

// signInServers are the servers that run, for who signs in to them.
func (in *Daemon) signInServers() []signin.Server {
	running := in.List()
	out := make([]signin.Server, len(running))
	for i, s := range running {
		out[i] = signin.Server{Name: s.Name(), Source: s.source}
		if fleet, ok := s.upstream.(*upstream.ServerPool); ok {
			out[i].Waiting = func() []string {
				_, needed := fleet.Logins()
				return needed
			}
		}
	}
	return out
}

// signedInTo has callers of a mount sent to where they sign in to its server, and
// wait for what they are listed then. Where one token is had without them there is
// nothing to wait for.
func (in *Daemon) signedInTo(m proxy.Mount, s *credential.Source, to reached) proxy.Mount {
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
	if !in.SignIn.OffersLink(s) {
		return m
	}
	m.SignIn = func(id *gate.Identity, why error) string {
		missing, ok := errors.AsType[transport.MissingError](why)
		if !ok || !missing.NeedsLogin() {
			return ""
		}
		address, err := in.SignIn.Link(s.Settings().Server, id.Key())
		if err != nil {
			in.Log.Warn("nobody can be sent to sign in", "err", err)
		}
		return address
	}
	return m
}

// credentialChanged takes the news of another credential.
func (in *Daemon) credentialChanged(server, principal string) {
	for _, s := range in.List() {
		if s.Name() == server && s.source != nil {
			s.upstream.Renewed(principal)
		}
	}
}

// credentialsChanged takes the news of other credentials, of whoever.
func (in *Daemon) credentialsChanged() {
	for _, s := range in.List() {
		if s.source != nil {
			s.source.ForgetAll()
			s.upstream.Wake()
		}
	}
}
