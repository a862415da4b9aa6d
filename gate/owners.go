package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Owners is the phase of servers that belong to a caller, and of the namespaces of tools that
// a caller has registered: only the owner may view and call what they offer. It abstains for
// all others. The zero value has none.
type Owners struct {
	of         map[string]string // principal key, by server or namespace
	registered map[string]string // of that, the namespaces of registered tools
	revision   string
}

// NewOwners returns the phase of added servers, and of the namespaces of registered tools,
// with the keys of the principals that own them. The maps are not changed afterwards.
func NewOwners(servers, registered map[string]string) *Owners {
	of := make(map[string]string, len(servers)+len(registered))
	maps.Copy(of, servers)
	maps.Copy(of, registered)
	h := sha256.New()
	for _, server := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(h, "%d:%s%d:%s", len(server), server, len(of[server]), of[server])
	}
	return &Owners{of: of, registered: registered, revision: hex.EncodeToString(h.Sum(nil)[:8])}
}

// Part implements [Phase].
func (o *Owners) Part() Part {
	return Part{
		Name: "owner", Check: o.Check,
		Snapshot: func(*Request) any { return o }, // it is not changed
		Explain:  o.Explain, ViewClass: o.ViewClass,
	}
}

// Check is [Part.Check].
func (o *Owners) Check(_ context.Context, r *Request) (Decision, error) {
	owner, owned := o.of[r.Server]
	if !owned || r.Identity != nil && r.Identity.Key() == owner {
		return Decision{Effect: Abstain}, nil
	}
	if _, tool := o.registered[r.Server]; tool {
		return Decision{Reason: "the tool was registered by another caller"}, nil
	}
	return Decision{Reason: "the server was added by another caller"}, nil
}

// Explain is [Part.Explain].
func (o *Owners) Explain(ctx context.Context, r *Request) (Explanation, error) {
	d, err := o.Check(ctx, r)
	e := Explanation{Decision: d}
	if d.Effect != Deny {
		return e, err
	}
	if _, tool := o.registered[r.Server]; tool {
		e.Rules = []Rule{{Text: "a registered tool is its owner's; a tool for everyone is declared under toolgate.tools"}}
	} else {
		e.Rules = []Rule{{Text: "a server is its owner's until it is promoted"}}
		e.Change = &Change{Text: fmt.Sprintf("toolgate servers promote %s", r.Server), Where: "dynamic_servers.promoted", Value: r.Server}
	}
	return e, err
}

// ViewClass is [Part.ViewClass].
func (o *Owners) ViewClass(id *Identity) (class string, cacheable bool) {
	if id != nil {
		for _, owner := range o.of {
			if owner == id.Key() {
				return o.revision + ":" + owner, true
			}
		}
	}
	return o.revision, true
}
