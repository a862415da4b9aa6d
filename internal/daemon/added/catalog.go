package added

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Offers returns the templates that the gate lets the caller add, with at least some
// arguments. If the gate cannot decide at the moment, the result is an error, never a
// shorter list.
func (s *Servers) Offers(ctx context.Context) ([]enable.Template, error) {
	var out []enable.Template
	servers := s.o.Config().Servers
	for i := range servers {
		server := &servers[i]
		may, err := s.mayAdd(ctx, server)
		if err != nil {
			return nil, err
		}
		if may {
			out = append(out, enable.Template{Name: server.Key, Offer: *server.Offer})
		}
	}
	return out, nil
}

// mostArguments bounds the choices of arguments about which the gate is asked, to find
// out whether the caller may add a template at all.
const mostArguments = 64

// addable tells whether a server of the file is a template.
func addable(s *config.Server) bool { return s.Offer != nil && s.Refused == nil && !s.Disabled }

// mayAdd tells whether the caller may add a server with any arguments.
func (s *Servers) mayAdd(ctx context.Context, server *config.Server) (bool, error) {
	if !addable(server) {
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
func (s *Servers) shows(ctx context.Context, name string) bool {
	server, ok := s.o.Config().Server(name)
	if !ok {
		return false
	}
	may, err := s.mayAdd(ctx, &server)
	return may && err == nil
}

// may asks the gate whether the caller may add a server with given arguments; nil
// means that none are chosen yet.
func (s *Servers) may(ctx context.Context, server string, arguments map[string]string) (bool, error) {
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
	d := s.chain.Load().Decide(ctx, addition(&q, server))
	return permits(d), d.Err
}

// permits tells whether a decision lets a server be added: no phase may deny it.
func permits(d gate.Decision) bool {
	return d.Err == nil && (d.Effect == gate.Allow || d.Phase == "")
}

// addition returns the request to add a server, for the caller of another request. No
// phase has rules about such a server itself.
func addition(of *gate.Request, server string) *gate.Request {
	q := *of
	q.Action, q.Kind, q.CapabilityID, q.Unsuffixed = gate.Enable, mcp.NoKind, "", ""
	q.Server, q.Original, q.Exposed = server, server, server
	return &q
}

// Added implements [enable.Catalog].
func (s *Servers) Added(_ context.Context, principal string) ([]enable.Added, error) {
	var out []enable.Added
	added := s.records()
	for i := range added {
		if r := &added[i]; !r.Promoted && r.Owner.Principal == principal {
			out = append(out, s.describe(r))
		}
	}
	return out, nil
}

// describe returns the current state of an added server.
func (s *Servers) describe(r *store.DynamicRecord) enable.Added {
	out := enable.Added{
		Server: r.Server, Offer: r.Entry, Arguments: readArguments(r.Arguments),
		Prefix: Namespace(r.Entry, r.Server) + "__", State: "not served",
	}
	if status, runs := s.o.Status(r.Server); runs {
		out.State, out.Reason = status.State.String(), status.Reason
	}
	return out
}

// Add implements [enable.Catalog].
func (s *Servers) Add(ctx context.Context, principal, template string, arguments map[string]string) (enable.Added, error) {
	who, ok := gate.ParsePrincipal(principal)
	if !ok {
		return enable.Added{}, fmt.Errorf("add the server %s: the caller has no principal", template)
	}
	raw, err := json.Marshal(arguments) // sorted by name
	if err != nil {
		return enable.Added{}, fmt.Errorf("add the server %s: %w", template, err)
	}
	switch may, err := s.may(ctx, template, arguments); {
	case err != nil:
		return enable.Added{}, err
	case !may:
		return enable.Added{}, enable.Unknown(template)
	}
	caller, _ := gate.CallerOf(ctx) // known, or it might not
	r := store.DynamicRecord{
		Server: addedKey(principal, template, raw), Owner: store.Owner{Tenant: who.Tenant, Principal: principal}, Persona: caller.Persona,
		Entry: template, Arguments: raw, Change: store.Change{Actor: approval.Name(&gate.Identity{Principal: who}), Reason: "add_server"},
	}
	_, err = s.o.Store.Add(ctx, r, s.o.Config().Toolgate.Limits.AddedPerPrincipal) // adding an existing one is not an error
	switch {
	case errors.Is(err, store.ErrTooMany):
		return enable.Added{}, toolapi.Problem("You have added as many servers as you may; remove one with remove_server first.")
	case err != nil:
		return enable.Added{}, err
	}
	if err := s.rows.Apply(ctx); err != nil {
		return enable.Added{}, err
	}
	return s.settled(ctx, &r), nil
}

// settled waits a while for a new server to list its tools.
func (s *Servers) settled(ctx context.Context, r *store.DynamicRecord) enable.Added {
	ctx, cancel := context.WithTimeout(ctx, addWait)
	defer cancel()
	tick := time.NewTicker(addPoll)
	defer tick.Stop()
	for {
		now := s.describe(r)
		if now.State != mcp.Starting.String() {
			s.o.Settle(ctx) // so that the next list includes it
			return now
		}
		select {
		case <-ctx.Done():
			return now
		case <-tick.C:
		}
	}
}

// Remove implements [enable.Catalog].
func (s *Servers) Remove(ctx context.Context, principal, server string) error {
	who, _ := gate.ParsePrincipal(principal)
	ok, err := s.o.Store.RemoveOwn(ctx, server, store.Owner{Tenant: who.Tenant, Principal: principal})
	if err != nil {
		return err
	}
	if !ok {
		return toolapi.Problem("You have added no server of this name; find_servers lists those that you have.")
	}
	return s.rows.Apply(ctx)
}
