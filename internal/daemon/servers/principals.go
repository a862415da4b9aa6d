package servers

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/transport"
)

// reached is a server, or the servers of all its callers.
type reached interface {
	proxy.Backend
	proxy.SessionEnder
	Spec() upstream.Spec
	Run(ctx context.Context) error
	Drain(ctx context.Context)
	Tails() (last, previous transport.Tail)
	Renewed(principal string)
	Wake()
	// Await waits until it is known what a holder is listed, see [upstream.Server.Await].
	Await(ctx context.Context, holder string, kind mcp.Kind, key string) error
	// Listed tells whether a holder is listed something, for which Await does not wait.
	Listed(holder string, kind mcp.Kind, key string) bool
	// Asked is told that a holder is shown lists; LookAgain has them read again.
	Asked(holder string)
	LookAgain()
	// Listings returns what is listed to holders; the empty one is everyone.
	Listings() map[string]*mcp.Listing
}

// These are found by type assertion, so that to lose one would cost in silence.
var (
	_ proxy.SessionEnder = (*queue.Backend)(nil)
	_ proxy.ClientAware  = (*queue.Backend)(nil)
	_ proxy.ClientAware  = (*upstream.Server)(nil)
	_ proxy.ClientAware  = (*upstream.ServerPool)(nil)
	_ proxy.ClientAware  = alone{}
	_ transport.Renewing = (*credential.Source)(nil)
	_ transport.Proving  = (*credential.Source)(nil)
)

// alone is a server with one credential.
type alone struct{ *upstream.Server }

// Renewed implements reached.
func (a alone) Renewed(string) { a.Server.Renewed() }

// Await implements reached.
func (a alone) Await(ctx context.Context, _ string, kind mcp.Kind, key string) error {
	return a.Server.Await(ctx, kind, key)
}

// Listed implements reached.
func (a alone) Listed(_ string, kind mcp.Kind, key string) bool {
	return a.Server.Listed(kind, key)
}

// Asked implements reached.
func (a alone) Asked(string) { a.Server.Asked() }

// Listings implements reached.
func (a alone) Listings() map[string]*mcp.Listing {
	l, _ := a.Listing()
	return map[string]*mcp.Listing{"": l}
}

// reach makes what reaches a server: one for all callers, or one for each that has a
// credential of its own.
func (t *Table) reach(ctx context.Context, spec upstream.Spec, told upstream.Sink, shown transport.Credential, source *credential.Source) reached {
	o := upstream.Options{
		Sink: told, Credential: shown, Logger: t.o.Log, Shown: t.o.Shown, SignIn: source != nil && t.o.SignIn.OffersLink(source),
		Identity: proxy.Implementation(version.Version),
	}
	if t.o.Placed != nil && spec.Command != "" && spec.Isolation == upstream.IsolateShared {
		o.Placed = t.o.Placed(spec.Copies, spec.Exclusive)
	}
	if source == nil || source.Settings().Shared {
		o.Known = t.o.Catalogs.Load(ctx, &spec, "")
		return alone{upstream.New(spec, o)}
	}
	return upstream.NewServerPool(spec, upstream.ServerPoolOptions{
		Options:  o,
		Known:    func(ctx context.Context, holder string) *mcp.Listing { return t.o.Catalogs.Load(ctx, &spec, holder) },
		Relisted: t.o.Relisted,
	})
}

// mostNamed bounds how many callers `ls` names who have to sign in to a server.
const mostNamed = 20

// signIns says who has signed in to a server at which people do so by themselves, nil
// for every other server.
func (s *server) signIns() *admin.SignIns {
	pool, ok := s.upstream.(*upstream.ServerPool)
	if !ok || !signin.ByPeople(s.source) {
		return nil
	}
	signedIn, needed := pool.Logins()
	out := &admin.SignIns{SignedIn: len(signedIn), Needed: len(needed), Who: []string{}}
	for _, principal := range needed[:min(len(needed), mostNamed)] {
		if p, ok := gate.ParsePrincipal(principal); ok {
			out.Who = append(out.Who, p.Subject)
		}
	}
	return out
}

// because adds to why a server is as it is who has to sign in to it.
func because(reason string, s *admin.SignIns) string {
	if s == nil || s.Needed == 0 {
		return reason
	}
	who := strings.Join(s.Who, ", ")
	if more := s.Needed - len(s.Who); more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	return strings.TrimPrefix(fmt.Sprintf("%s; to sign in: %s", reason, who), "; ")
}

// Personal are the servers of a configuration that list something else to each caller.
func (t *Table) Personal(servers []config.Server) map[string]gate.Lister {
	out := make(map[string]gate.Lister)
	for i := range servers {
		if servers[i].AuthPer() == credential.PerPrincipal {
			out[servers[i].Key] = lister{t, servers[i].Key}
		}
	}
	return out
}

// lister is what a server lists to callers, whichever generation of it runs.
type lister struct {
	t   *Table
	key string
}

func (l lister) pool() *upstream.ServerPool {
	s := l.t.now.Load().servers[l.key]
	if s == nil {
		return nil
	}
	pool, _ := s.upstream.(*upstream.ServerPool)
	return pool
}

// Lists implements gate.Lister.
func (l lister) Lists(id *gate.Identity, kind mcp.Kind, original string) bool {
	f := l.pool()
	return f != nil && f.Lists(holder(f, id), kind, original)
}

// holder is who shares what a server keeps for a caller.
func holder(at interface{ Spec() upstream.Spec }, id *gate.Identity) string {
	spec := at.Spec()
	return spec.Holder(id.Key(), id.Rights())
}

// Version implements gate.Lister.
func (l lister) Version(id *gate.Identity) string {
	if f := l.pool(); f != nil {
		return f.Version(holder(f, id))
	}
	return ""
}
