package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file keeps the servers that agents have added out of the operator's
// list: which they are is in the store, what each of them runs is in the
// configuration.

const (
	// addWait is how long add_server waits for the new server to list its tools.
	addWait = 10 * time.Second
	// addPoll is how often it looks.
	addPoll = 50 * time.Millisecond
	// addPause is how long what could not be served is left alone.
	addPause = time.Second
)

// loadAdded reads what was added and tells whether it is not what it was. Of a
// store that was not there at the start it is none, until that tells of some.
func (in *Daemon) loadAdded(ctx context.Context) (changed bool, err error) {
	list, generation, err := in.Store.Dynamic().List(ctx)
	if errors.Is(err, store.ErrAway) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the servers that were added: %w", err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	changed = generation != in.addedGeneration
	in.added, in.addedGeneration = list, generation
	return changed, nil
}

// followAdded keeps up with what is added, here and at other gateways that share
// the store, until the context ends.
func (in *Daemon) followAdded(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-in.addedChanged:
			if err := in.applyAdded(ctx); err != nil && ctx.Err() == nil {
				in.Log.Error("servers that were added or removed are not served yet", "err", err)
				select { // before it is tried again
				case <-ctx.Done():
				case <-time.After(addPause):
				}
			}
		}
	}
}

// applyAdded serves what was added, and nothing that was removed.
func (in *Daemon) applyAdded(ctx context.Context) error {
	in.reloading.Lock()
	defer in.reloading.Unlock()
	changed, err := in.loadAdded(ctx)
	if err != nil || !changed {
		return err
	}
	if err = in.apply(in.Current()); err != nil {
		in.mu.Lock()
		in.addedGeneration = notServed
		in.mu.Unlock()
		nudge(in.addedChanged)
	}
	return err
}

// notServed is the generation of what was added while that could not be served.
const notServed = -1

// withAdded returns the servers of a configuration that are served: those that
// are not only offered, and those that were added. owners are the principals of
// those that are not everyone's.
func (in *Daemon) withAdded(c *config.Config) (servers []config.Server, owners map[string]string) {
	in.mu.Lock()
	added := in.added
	in.mu.Unlock()
	servers = slices.DeleteFunc(slices.Clone(c.Servers), func(s config.Server) bool { return s.Offer != nil })
	owners = make(map[string]string)
	for i := range added {
		r := &added[i]
		offer, _ := c.Server(r.Entry)
		s, ok := offer.Enabled(r.Server, AddedNamespace(r.Entry, r.Server), readArguments(r.Arguments))
		if _, taken := c.Server(r.Server); !ok || taken {
			in.Log.Warn("a server that was added is not served: the configuration does not offer it any more", "server", r.Server, "offer", r.Entry)
			continue
		}
		servers = append(servers, s)
		if !r.Promoted {
			owners[s.Key] = r.Owner.Principal
		}
	}
	return servers, owners
}

func readArguments(raw []byte) map[string]string {
	arguments := map[string]string{}
	if json.Unmarshal(raw, &arguments) != nil {
		return nil
	}
	return arguments
}

// addedKey is the key of a server that a principal adds: the same for the same
// offer and arguments, and telling nobody who it was.
func addedKey(principal, offer string, arguments []byte) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%s", len(principal), principal, len(offer), offer, arguments))
	return offer + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:7])
}

// AddedNamespace is the namespace of such a server, within 20 characters.
func AddedNamespace(offer, key string) string {
	return build.AddedPrefix(offer) + key[len(key)-build.AddedTail+1:]
}

// shelf implements [enable.Shelf] for a gateway.
type shelf struct{ in *Daemon }

// Offers are those that the gate lets the caller add, with some arguments. What it
// cannot decide about at the moment is an error, and no shorter list.
func (s shelf) Offers(ctx context.Context) ([]enable.Offer, error) {
	var out []enable.Offer
	servers := s.in.Current().Servers
	for i := range servers {
		server := &servers[i]
		may, err := s.offers(ctx, server)
		if err != nil {
			return nil, err
		}
		if may {
			out = append(out, enable.Offer{Name: server.Key, Description: server.Offer.Description, Arguments: server.Offer.Arguments})
		}
	}
	return out, nil
}

// mostArguments is how many arguments of an offer the gate is asked about to find
// out whether the caller may have it with any.
const mostArguments = 64

// offers tells whether a server of the file can be added.
func offers(s *config.Server) bool { return s.Offer != nil && s.Refused == nil && !s.Disabled }

// offers tells whether a server is one that the caller may add, with whichever
// arguments.
func (s shelf) offers(ctx context.Context, server *config.Server) (bool, error) {
	if !offers(server) {
		return false, nil
	}
	if may, err := s.may(ctx, server.Key, nil); may || err != nil {
		return may, err
	}
	all := []map[string]string{{}}
	for _, name := range slices.Sorted(maps.Keys(server.Offer.Arguments)) {
		var more []map[string]string
		for _, so := range all {
			for _, value := range server.Offer.Arguments[name] {
				one := maps.Clone(so)
				one[name] = value
				more = append(more, one)
			}
		}
		all = more[:min(len(more), mostArguments)]
	}
	for _, arguments := range all {
		if may, err := s.may(ctx, server.Key, arguments); may || err != nil {
			return may, err
		}
	}
	return false, nil
}

// shows tells whether the caller may add a server with some arguments.
func (s shelf) shows(ctx context.Context, name string) bool {
	server, ok := s.in.Current().Server(name)
	if !ok {
		return false
	}
	may, err := s.offers(ctx, &server)
	return may && err == nil
}

// may asks the gate whether the caller may add a server with arguments, nil for
// those that nobody has chosen yet.
func (s shelf) may(ctx context.Context, server string, arguments map[string]string) (bool, error) {
	id, capsule := gate.CallerOf(ctx)
	if id == nil {
		return false, nil
	}
	q := gate.Request{Identity: id, Capsule: capsule}
	if arguments != nil {
		var err error
		if q.Args, err = json.Marshal(map[string]any{"name": server, "arguments": arguments}); err != nil {
			return false, fmt.Errorf("ask about the server %s: %w", server, err)
		}
	}
	d := s.in.enabling.Load().Decide(ctx, addition(&q, server))
	return permits(d), d.Err
}

// permits tells whether a decision lets a server be added: no phase denies it.
func permits(d gate.Decision) bool {
	return d.Err == nil && (d.Effect == gate.Allow || d.Phase == "")
}

// addition is the question whether a server may be added, for the caller of
// another one. No phase is about such a server itself.
func addition(of *gate.Request, server string) *gate.Request {
	q := *of
	q.Action, q.Kind, q.CapabilityID, q.Plain = gate.Enable, mcp.NoCapability, "", ""
	q.Server, q.Original, q.Exposed = server, server, server
	return &q
}

func (s shelf) Added(_ context.Context, principal string) ([]enable.Added, error) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	var out []enable.Added
	for i := range s.in.added {
		if r := &s.in.added[i]; !r.Promoted && r.Owner.Principal == principal {
			out = append(out, s.in.describe(r))
		}
	}
	return out, nil
}

// describe shows a server that was added as it is; mu is held.
func (in *Daemon) describe(r *store.DynamicRecord) enable.Added {
	out := enable.Added{
		Server: r.Server, Offer: r.Entry, Arguments: readArguments(r.Arguments),
		Prefix: AddedNamespace(r.Entry, r.Server) + "__", State: "not served",
	}
	if running := in.servers[r.Server]; running != nil {
		_, status := running.Listing()
		out.State, out.Reason = status.State.String(), status.Reason
	}
	return out
}

func (s shelf) Add(ctx context.Context, principal, offer string, arguments map[string]string) (enable.Added, error) {
	who, ok := gate.ParsePrincipal(principal)
	if !ok {
		return enable.Added{}, fmt.Errorf("add the server %s: the caller has no principal", offer)
	}
	raw, err := json.Marshal(arguments) // sorted by name
	if err != nil {
		return enable.Added{}, fmt.Errorf("add the server %s: %w", offer, err)
	}
	switch may, err := s.may(ctx, offer, arguments); {
	case err != nil:
		return enable.Added{}, err
	case !may:
		return enable.Added{}, enable.Unknown(offer)
	}
	r := store.DynamicRecord{
		Server: addedKey(principal, offer, raw), Owner: store.Owner{Tenant: who.Tenant, Principal: principal},
		Entry: offer, Arguments: raw, Change: store.Change{Actor: approval.Name(&gate.Identity{Principal: who}), Reason: "add_server"},
	}
	_, err = s.in.Store.Dynamic().Add(ctx, r, s.in.Current().Toolgate.Limits.AddedPerPrincipal) // one that is there already is fine
	switch {
	case errors.Is(err, store.ErrTooMany):
		return enable.Added{}, enable.Problem("You have added as many servers as you may; remove one with remove_server first.")
	case err != nil:
		return enable.Added{}, err
	}
	if err := s.in.applyAdded(ctx); err != nil {
		return enable.Added{}, err
	}
	return s.settled(ctx, &r), nil
}

// settled waits a while for a new server to list what it has.
func (s shelf) settled(ctx context.Context, r *store.DynamicRecord) enable.Added {
	ctx, cancel := context.WithTimeout(ctx, addWait)
	defer cancel()
	tick := time.NewTicker(addPoll)
	defer tick.Stop()
	for {
		s.in.mu.Lock()
		now := s.in.describe(r)
		s.in.mu.Unlock()
		if now.State != mcp.Starting.String() {
			s.in.Gateway.Settle(ctx) // so that the next list has it
			return now
		}
		select {
		case <-ctx.Done():
			return now
		case <-tick.C:
		}
	}
}

func (s shelf) Remove(ctx context.Context, principal, server string) error {
	who, _ := gate.ParsePrincipal(principal)
	ok, err := s.in.Store.Dynamic().RemoveOwn(ctx, server, store.Owner{Tenant: who.Tenant, Principal: principal})
	if err != nil {
		return err
	}
	if !ok {
		return enable.Problem("You have added no server of this name; find_servers lists those that you have.")
	}
	return s.in.applyAdded(ctx)
}

// enabling asks the gate about a server that is to be added, beside the tool by
// which it is: the chain's action tool.enable. A phase that denies it wins; what
// no phase says anything about is decided by the call of the tool alone. A server
// that the caller may not add at all is unknown to it, which the tool itself says,
// as of every other. Not every mode lets servers be added.
type enabling struct {
	chain *gate.Chain
	shelf shelf
	mode  func() governance.Mode
	next  proxy.ArgumentChecker
}

// CheckArguments implements [proxy.ArgumentChecker].
func (e enabling) CheckArguments(ctx context.Context, c proxy.PendingCall) ([]gate.Demand, error) {
	var demands []gate.Demand
	if c.Server == enable.Name && c.Original == enable.Add {
		if mode := e.mode(); !mode.Enables() {
			return nil, refusal.Governed("no servers are added in mode " + string(mode))
		}
		name, _ := mcp.LookupString(c.Args, "name")
		switch d := e.chain.Decide(ctx, addition(c.Request, name)); {
		case d.Err != nil:
			return nil, refusal.Undecided(d)
		case permits(d):
			demands = d.Demands
		case e.shelf.shows(gate.WithCaller(ctx, c.Identity, c.Capsule), name):
			return nil, refusal.Denied(d)
		}
	}
	more, err := e.next.CheckArguments(ctx, c)
	return slices.Concat(demands, more), err
}

// AddedServers implements [admin.Adder].
func (in *Daemon) AddedServers(context.Context) ([]admin.AddedServer, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]admin.AddedServer, 0, len(in.added))
	for i := range in.added {
		r := &in.added[i]
		who, _ := gate.ParsePrincipal(r.Owner.Principal)
		a := in.describe(r)
		arguments := make([]string, 0, len(a.Arguments))
		for _, name := range slices.Sorted(maps.Keys(a.Arguments)) {
			arguments = append(arguments, name+"="+a.Arguments[name])
		}
		out = append(out, admin.AddedServer{
			Server: r.Server, Offer: r.Entry, Arguments: arguments, State: a.State, Reason: a.Reason,
			Tenant: who.Tenant, Subject: who.Subject, Issuer: who.Issuer, Promoted: r.Promoted, CreatedAt: r.CreatedAt,
		})
	}
	return out, nil
}

func (in *Daemon) promote(ctx context.Context, server string, by store.Change) error {
	ok, err := in.Store.Dynamic().Promote(ctx, server, by)
	return in.changedAdded(ctx, server, ok, err)
}

func (in *Daemon) removeServer(ctx context.Context, server string) error {
	ok, err := in.Store.Dynamic().Remove(ctx, server)
	return in.changedAdded(ctx, server, ok, err)
}

func (in *Daemon) changedAdded(ctx context.Context, server string, ok bool, err error) error {
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s; `toolgate servers ls` lists those that were added", admin.ErrNoServer, cmp.Or(server, "(none)"))
	}
	if err != nil {
		return err
	}
	return in.applyAdded(ctx)
}
