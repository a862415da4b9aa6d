package gate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Lister is a server whose lists differ between callers. It is safe for concurrent use and
// does not wait for the server.
type Lister interface {
	// Lists tells whether the server lists a capability to a caller.
	Lists(id *Identity, kind mcp.Kind, original string) bool
	// Version changes whenever the lists of a caller do.
	Version(id *Identity) string
}

// Personal is the phase of servers at which each caller has a credential of their own. A
// caller may view what such a server lists to them. It abstains for all other servers.
// The zero value has no servers.
type Personal struct {
	of map[string]Lister // by server
}

// NewPersonal returns the phase of such servers, by their keys. The map is not
// changed afterwards.
func NewPersonal(of map[string]Lister) *Personal { return &Personal{of} }

// Part implements [Phase].
func (p *Personal) Part() Part {
	return Part{
		Name: "personal", Check: p.Check,
		Snapshot: p.Snapshot, Explain: p.Explain, ViewClass: p.ViewClass,
	}
}

// Check is [Part.Check].
func (p *Personal) Check(_ context.Context, r *Request) (Decision, error) {
	server := p.of[r.Server]
	if server == nil || r.Identity != nil && server.Lists(r.Identity, r.Kind, r.Original) {
		return Decision{Effect: Abstain}, nil
	}
	return Decision{Reason: "the server does not list it to this caller"}, nil
}

// Snapshot is [Part.Snapshot]: what such a server lists changes by itself.
func (p *Personal) Snapshot(r *Request) any {
	if r == nil || p.of[r.Server] != nil {
		return nil
	}
	return p
}

// Explain is [Part.Explain].
func (p *Personal) Explain(ctx context.Context, r *Request) (Explanation, error) {
	d, err := p.Check(ctx, r)
	e := Explanation{Decision: d}
	if d.Effect == Deny {
		e.Rules = []Rule{{Text: "a server at which callers sign in by themselves is to each as it lists itself to them"}}
		e.Change = &Change{Text: fmt.Sprintf("toolgate login %s", r.Server), Where: "servers." + r.Server + ".auth", Value: "sign in"}
	}
	return e, err
}

// ViewClass is [Part.ViewClass].
func (p *Personal) ViewClass(id *Identity) (class string, cacheable bool) {
	if id == nil {
		return "", true
	}
	var b strings.Builder
	b.WriteString(id.Rights()) // by which a server may list otherwise
	for _, server := range slices.Sorted(maps.Keys(p.of)) {
		b.WriteString("/" + p.of[server].Version(id))
	}
	return b.String(), true
}
