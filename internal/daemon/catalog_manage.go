package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// Catalog implements [admin.Cataloger].
func (ctl *Control) Catalog(ctx context.Context, q admin.CatalogQuery) ([]admin.CatalogEntry, error) {
	ctl.d.gateway.Settle(ctx)
	var mode governance.Mode
	if q.Mode != "" {
		var err error
		if mode, err = governance.ParseMode(q.Mode); err != nil {
			return nil, err
		}
	}
	entries, err := ctl.d.registry.Entries(registry.Filter{
		Server: q.Server, Kind: q.Kind, State: q.State, Category: q.Category, Provider: q.Provider, Source: q.Source,
	})
	if err != nil {
		return nil, err
	}
	out := []admin.CatalogEntry{}
	tokens := ctl.tokens()
	for i := range entries {
		e := ctl.catalogEntry(&entries[i])
		e.Tokens = tokens[e.ID]
		if q.Class != "" && q.Class != e.Class || q.Risk != "" && q.Risk != e.Risk {
			continue
		}
		if mode != "" {
			outcome := ctl.d.operation.Examiner.Load().InMode(requestOf(&entries[i]), entries[i].Record.Definition, mode)
			if outcome == governance.Deny {
				continue
			}
			e.InMode = outcome.String()
		}
		out = append(out, e)
	}
	return out, nil
}

// tokens are about how many tokens each tool that is listed costs a model, by its id.
func (ctl *Control) tokens() map[string]int {
	of := map[string]int{}
	for _, c := range ctl.d.gateway.Capabilities() {
		if c.Kind == mcp.Tool {
			of[c.CapabilityID] = build.ToolTokens(c.Listed())
		}
	}
	return of
}

// requestOf is a call of an entry by nobody, to ask what rules make of it.
func requestOf(e *registry.Entry) *gate.Request {
	return &gate.Request{
		Action: gate.Call, Kind: kindOf(e.Kind), Server: e.Server, Original: e.Original, Exposed: e.Name, CapabilityID: e.ID,
	}
}

// CatalogEntry implements [admin.Cataloger].
func (ctl *Control) CatalogEntry(ctx context.Context, name, kind string) (admin.CatalogEntry, error) {
	ctl.d.gateway.Settle(ctx)
	e, err := ctl.d.registry.Entry(ctx, name, kind)
	switch {
	case errors.Is(err, registry.ErrUnknown), errors.Is(err, registry.ErrAmbiguous):
		return admin.CatalogEntry{}, &admin.NoEntryError{Err: err}
	case err != nil:
		return admin.CatalogEntry{}, err
	}
	out := ctl.catalogEntry(&e)
	out.Tokens = ctl.tokens()[e.ID]
	out.Description, out.Definition, out.Held = e.Description, e.Record.Definition, e.Record.HeldDefinition
	if e.Record.HeldHash != "" {
		out.Diff = registry.Diff(e.Record.Definition, e.Record.HeldDefinition)
	}
	return out, nil
}

// CatalogHistory implements [admin.Cataloger].
func (ctl *Control) CatalogHistory(ctx context.Context, name, kind string) ([]admin.AcceptedDefinition, error) {
	ctl.d.gateway.Settle(ctx)
	e, err := ctl.d.registry.Entry(ctx, name, kind)
	if err != nil {
		return nil, err
	}
	history, err := ctl.d.registry.History(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	out := make([]admin.AcceptedDefinition, len(history))
	for i := range history {
		d := &history[i]
		out[i] = admin.AcceptedDefinition{
			Hash: d.Hash, Version: registry.Version(d.Definition), Current: d.Hash == e.Record.AcceptedHash,
			AcceptedAt: d.AcceptedAt, Actor: d.Actor, Reason: d.Reason, Definition: d.Definition,
		}
	}
	return out, nil
}

func (ctl *Control) changeCatalog(ctx context.Context, c admin.CatalogChange) (admin.CatalogEntry, error) {
	ctl.d.gateway.Settle(ctx)
	e, err := ctl.d.registry.Entry(ctx, c.Name, c.Kind)
	if err != nil {
		return admin.CatalogEntry{}, err
	}
	if err := ctl.change(ctx, &e, &c); err != nil {
		return admin.CatalogEntry{}, fmt.Errorf("%s: %w", e.Name, err)
	}
	ctl.d.log.Info("the catalog was changed", "op", c.Op, "name", e.Name, "capability_id", e.ID, "actor", c.Actor, "reason", c.Reason)
	if c.Op == admin.CatalogForget {
		return ctl.catalogEntry(&e), nil
	}
	if e, err = ctl.d.registry.Entry(ctx, e.ID, ""); err != nil {
		return admin.CatalogEntry{}, err
	}
	return ctl.catalogEntry(&e), nil
}

func (ctl *Control) change(ctx context.Context, e *registry.Entry, c *admin.CatalogChange) error {
	by := store.Change{Actor: c.Actor, Reason: c.Reason}
	r := ctl.d.registry
	switch c.Op {
	case admin.CatalogEnable, admin.CatalogDisable:
		return r.SetEnabled(ctx, e.ID, c.Op == admin.CatalogEnable, by)
	case admin.CatalogFlag:
		return r.Flag(ctx, e.ID, c.Tenant, c.On, by)
	case admin.CatalogUnflag:
		return found("it has no flag for the tenant " + c.Tenant)(r.ClearFlag(ctx, e.ID, c.Tenant))
	case admin.CatalogRestrict:
		return r.Restrict(ctx, e.ID, c.Persona, by)
	case admin.CatalogAllow:
		return r.Allow(ctx, e.ID, c.Persona, by)
	case admin.CatalogUnrestrict:
		return found("it has no restriction for the persona " + c.Persona)(r.LiftRestriction(ctx, e.ID, c.Persona))
	case admin.CatalogClassify:
		var costly *bool
		if c.Costly {
			costly = &c.Costly
		}
		return r.SetClass(ctx, e.ID, registry.Class(c.Class, c.Risk, costly), by)
	case admin.CatalogAccept:
		return r.Accept(ctx, e.ID, c.Hash, by)
	case admin.CatalogForget:
		if e.State != store.StateOrphaned {
			return fmt.Errorf("it is %s, and only what no server offers can be forgotten", e.State)
		}
		_, err := r.Forget(ctx, e.ID)
		return err
	}
	return fmt.Errorf("there is no change %q of a catalog", c.Op)
}

// found makes an error of what was not there.
func found(missing string) func(bool, error) error {
	return func(ok bool, err error) error {
		if err == nil && !ok {
			return fmt.Errorf("%s", missing)
		}
		return err
	}
}

func (ctl *Control) seedCatalog(ctx context.Context, s admin.CatalogSeed) (admin.CatalogSeeded, error) {
	seed, err := registry.ParseSeed(s.File, s.Data)
	if err != nil {
		return admin.CatalogSeeded{}, err
	}
	ctl.d.gateway.Settle(ctx)
	unmatched, err := ctl.d.registry.Sow(ctx, seed, store.Change{Actor: s.Actor, Reason: s.Reason})
	if err != nil {
		return admin.CatalogSeeded{}, err
	}
	out := admin.CatalogSeeded{Applied: len(seed.Entries) - len(unmatched), Unmatched: []string{}}
	for i := range unmatched {
		out.Unmatched = append(out.Unmatched, fmt.Sprintf("%s: %s", unmatched[i].At.Place(), &unmatched[i]))
	}
	return out, nil
}

// catalogEntry is an entry as the admin API shows it. Its class is what the rules in
// force make of it.
func (ctl *Control) catalogEntry(e *registry.Entry) admin.CatalogEntry {
	class := ctl.d.operation.Examiner.Load().Class(requestOf(e), e.Record.Definition)
	out := admin.CatalogEntry{
		ID: e.ID, Name: e.Name, Kind: e.Kind, Server: e.Server, Original: e.Original, DisplayName: e.DisplayName,
		Category: e.Category, Provider: e.Provider, Source: e.Source, Config: e.Record.Config, State: e.State, Enabled: e.Enabled, Decided: e.Decided, Class: classWord(class),
		Said: saidWord(e.Said), Risk: string(class.Risk), HighCost: class.HighCost, Flagged: e.Flagged,
		Actor: e.Change.Actor, Reason: e.Change.Reason, FirstSeen: e.Record.FirstSeen, ChangedAt: e.Record.ChangedAt,
		Hash: e.Record.AcceptedHash, HeldHash: e.Record.HeldHash, Version: registry.Version(e.Record.Definition),
	}
	if out.Said == "" && class.OperatorClassed {
		out.Said = out.Class
	}
	for _, f := range e.Flags {
		if out.Tenants == nil {
			out.Tenants = make(map[string]bool)
		}
		out.Tenants[f.Tenant] = f.Enabled
	}
	for _, p := range e.Restrictions {
		if p.Allowed {
			out.AllowedPersonas = append(out.AllowedPersonas, p.Persona)
			continue
		}
		out.DeniedPersonas = append(out.DeniedPersonas, p.Persona)
	}
	return out
}

func classWord(c governance.Class) string {
	switch {
	case c.Destructive:
		return registry.ClassDestructive
	case c.ReadOnly:
		return registry.ClassReadOnly
	}
	return registry.ClassWrite
}

// saidWord is what the operator says of a class, empty for nothing.
func saidWord(c store.Class) string {
	if c.ReadOnly == nil && c.Destructive == nil {
		return ""
	}
	return classWord(governance.Class{ReadOnly: c.ReadOnly != nil && *c.ReadOnly, Destructive: c.Destructive != nil && *c.Destructive})
}
