package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/store"
)

// Entry is one capability of the catalog, for those who manage it.
type Entry struct {
	ID          string
	Name        string // as clients know it
	Kind        string
	Server      string
	Original    string
	DisplayName string
	Description string // of the accepted definition
	Category    string
	Provider    string // see [store.RegistryRecord]
	Source      string // SourceDiscovery and so on
	State       string // as in [store.RegistryRecord]; an orphan also where its server is not configured
	Enabled     bool
	Decided     bool // a person or the seed said whether it is enabled
	Offered     bool // a server of this gateway lists it
	Said        store.Class
	Class       governance.Class // effective
	Flagged     []string
	Change      store.Change
	Record      store.RegistryRecord // as stored; the texts are filled in only by [Registry.Entry]

	Flags        []store.FlagRecord        // by tenant
	Restrictions []store.RestrictionRecord // by persona
}

// Filter selects entries; an empty field selects all.
type Filter struct {
	Server, Kind, State, Category, Provider, Source string
}

// selects tells whether the filter selects an entry.
func (f *Filter) selects(e *Entry) bool {
	for _, one := range [][2]string{
		{f.Server, e.Server}, {f.Kind, e.Kind}, {f.State, e.State}, {f.Category, e.Category}, {f.Provider, e.Provider}, {f.Source, e.Source},
	} {
		if one[0] != "" && one[0] != one[1] {
			return false
		}
	}
	return true
}

// ErrUnknown tells that no entry has the given name.
var ErrUnknown = errors.New("nothing in the catalog has the name")

// ErrAmbiguous tells that several entries have the given name.
var ErrAmbiguous = errors.New("several entries of the catalog have the name")

// Entries returns the entries of the catalog that pass a filter, sorted by name.
func (r *Registry) Entries(f Filter) ([]Entry, error) {
	v, err := r.current()
	if err != nil {
		return nil, err
	}
	r.working.Lock()
	configured := make(map[string]bool, len(r.offers))
	for server := range r.offers {
		configured[server] = true
	}
	r.working.Unlock()
	var out []Entry
	for _, one := range v.sorted() {
		if one.record == nil || one.empty() || one.standIn {
			continue
		}
		e := one.entry(configured[one.key.Server])
		if f.selects(&e) {
			out = append(out, e)
		}
	}
	return out, nil
}

// entry converts the row for those who manage it.
func (one *row) entry(configured bool) Entry {
	record := one.record
	e := Entry{
		ID: record.ID, Name: one.name(), Kind: record.Kind, Server: record.Server, Original: record.Original,
		DisplayName: record.DisplayName, Category: one.category, Provider: record.Provider, Source: record.Source, State: record.State, Enabled: one.enabled,
		Decided: !undecided(record), Offered: one.exposed != "", Said: record.Class, Class: one.class,
		Flagged: record.Flagged, Change: record.Change, Record: *record,
	}
	switch one.standing {
	case served:
		e.State = store.StateActive
	case held:
		e.State = store.StateHeld
	case orphaned:
		e.State = store.StateOrphaned
	case unrecorded:
		e.State = "refused"
	}
	if !configured {
		e.State = store.StateOrphaned
	}
	for _, f := range one.flags {
		e.Flags = append(e.Flags, f)
	}
	slices.SortFunc(e.Flags, func(a, b store.FlagRecord) int { return strings.Compare(a.Tenant, b.Tenant) })
	for _, p := range one.personas {
		e.Restrictions = append(e.Restrictions, p)
	}
	slices.SortFunc(e.Restrictions, func(a, b store.RestrictionRecord) int { return strings.Compare(a.Persona, b.Persona) })
	return e
}

// Entry returns the entry with the given name, id, or "server/original name". Its
// definitions are read from the store.
func (r *Registry) Entry(ctx context.Context, name, kind string) (Entry, error) {
	all, err := r.Entries(Filter{Kind: kind})
	if err != nil {
		return Entry{}, err
	}
	var found []Entry
	for _, e := range all {
		if e.ID == name || e.Name == name || e.Server+"/"+e.Original == name {
			found = append(found, e)
		}
	}
	switch {
	case len(found) == 0:
		return Entry{}, fmt.Errorf("%w %s; `toolgate catalog ls` lists the names", ErrUnknown, name)
	case len(found) > 1:
		var ids []string
		for _, e := range found {
			ids = append(ids, fmt.Sprintf("%s (%s of %s)", e.ID, e.Kind, e.Server))
		}
		return Entry{}, fmt.Errorf("%w %s; name one of %s", ErrAmbiguous, name, strings.Join(ids, ", "))
	}
	e := found[0]
	record, ok, err := r.o.Store.Registry().Get(ctx, e.ID)
	if err != nil {
		return Entry{}, err
	}
	if !ok {
		return Entry{}, fmt.Errorf("%w %s; `toolgate catalog ls` lists the names", ErrUnknown, name)
	}
	e.Record, e.Description = record, record.Description
	return e, nil
}

// edited rereads the store after a write, so that the change is in force here before
// the caller hears of it.
func (r *Registry) edited(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	r.refresh(ctx)
	return r.Healthy()
}

// edit changes one record in the store.
func (r *Registry) edit(ctx context.Context, id string, by store.Change, change func(*store.RegistryRecord) error) error {
	return r.edited(ctx, r.o.Store.Registry().Update(ctx, []string{id}, func(existing map[string]store.RegistryRecord) ([]store.RegistryRecord, error) {
		record, ok := existing[id]
		if !ok {
			return nil, fmt.Errorf("%w %s", ErrUnknown, id)
		}
		if err := change(&record); err != nil {
			return nil, err
		}
		record.Change = by
		return []store.RegistryRecord{record}, nil
	}))
}

// SetEnabled enables or disables a capability for all tenants without a flag.
func (r *Registry) SetEnabled(ctx context.Context, id string, on bool, by store.Change) error {
	return r.edit(ctx, id, by, func(record *store.RegistryRecord) error {
		record.Enabled, record.Source = on, SourceOperator
		return nil
	})
}

// SetClass sets the operator's class of a capability.
func (r *Registry) SetClass(ctx context.Context, id string, class store.Class, by store.Change) error {
	return r.edit(ctx, id, by, func(record *store.RegistryRecord) error {
		record.Class = class
		return nil
	})
}

// ErrOther tells that a different definition is held than the one that was reviewed.
var ErrOther = errors.New("a different definition is held now; look at it again")

// ErrNotHeld tells that no definition waits to be accepted.
var ErrNotHeld = errors.New("no definition of it is held")

// Flag enables or disables a capability for a tenant. It overrides the catalog.
func (r *Registry) Flag(ctx context.Context, id, tenant string, on bool, by store.Change) error {
	return r.edited(ctx, r.o.Store.Flags().Set(ctx, tenant, on, by, id))
}

// ClearFlag removes a tenant's flag, so that the catalog decides again.
func (r *Registry) ClearFlag(ctx context.Context, id, tenant string) (ok bool, err error) {
	ok, err = r.o.Store.Flags().Clear(ctx, tenant, id)
	return ok, r.edited(ctx, err)
}

// Restrict denies a capability to a persona.
func (r *Registry) Restrict(ctx context.Context, id, persona string, by store.Change) error {
	return r.edited(ctx, r.o.Store.Restrictions().Add(ctx, persona, by, id))
}

// Allow allows a capability to a persona, which then has of its kind only what is allowed
// to it.
func (r *Registry) Allow(ctx context.Context, id, persona string, by store.Change) error {
	return r.edited(ctx, r.o.Store.Restrictions().Allow(ctx, persona, by, id))
}

// LiftRestriction undoes [Registry.Restrict] and [Registry.Allow].
func (r *Registry) LiftRestriction(ctx context.Context, id, persona string) (ok bool, err error) {
	ok, err = r.o.Store.Restrictions().Remove(ctx, persona, id)
	return ok, r.edited(ctx, err)
}

// Forget removes the records of capabilities that no server offers. Their ids, flags
// and restrictions stay, in case they return.
func (r *Registry) Forget(ctx context.Context, ids ...string) (int64, error) {
	n, err := r.o.Store.Registry().Delete(ctx, ids...)
	return n, r.edited(ctx, err)
}

// Sow applies a seed to the catalog, and overrides earlier decisions. It returns the
// entries that match nothing.
func (r *Registry) Sow(ctx context.Context, seed *Seed, by store.Change) (unmatched []SeedEntry, err error) {
	all, err := r.Entries(Filter{})
	if err != nil {
		return nil, err
	}
	for i := range seed.Entries {
		e := &seed.Entries[i]
		at := slices.IndexFunc(all, func(one Entry) bool { return e.is(recordKey(&one.Record), one.Name) })
		if at < 0 {
			unmatched = append(unmatched, *e)
			continue
		}
		if err := r.sow(ctx, e, all[at].ID, by); err != nil {
			return nil, fmt.Errorf("seed %s: %w", e, err)
		}
	}
	return unmatched, r.edited(ctx, nil)
}

func (r *Registry) sow(ctx context.Context, e *SeedEntry, id string, by store.Change) error {
	if err := e.rules(ctx, r.o.Store, id, by); err != nil {
		return err
	}
	return r.o.Store.Registry().Update(ctx, []string{id}, func(existing map[string]store.RegistryRecord) ([]store.RegistryRecord, error) {
		record, ok := existing[id]
		if !ok {
			return nil, fmt.Errorf("%w %s", ErrUnknown, id)
		}
		e.describe(&record)
		record.Change = by
		if e.pins(record.HeldHash) {
			accept(&record, record.HeldDefinition, record.HeldHash)
		}
		return []store.RegistryRecord{record}, nil
	})
}

// Listed is one exposed name with its data from the catalog, for phases that take the
// catalog as input.
type Listed struct {
	Name     string
	Kind     string
	Enabled  bool
	Category string
	Class    governance.Class
	Flags    map[string]bool // by tenant
	Personas []string        // denied
}

// Listing returns the capabilities that clients may be told of, sorted by name. Held
// ones and those not offered are listed as disabled. It is nil while the catalog
// cannot be read.
func (r *Registry) Listing() []Listed {
	v, err := r.current()
	if err != nil {
		return nil
	}
	out := []Listed{}
	for _, one := range v.sorted() {
		if one.exposed == "" || one.key.Kind == KindInstructions || one.standIn {
			continue
		}
		l := Listed{Name: one.exposed, Kind: one.key.Kind, Enabled: one.enabled && one.standing == served, Class: one.class}
		l.Category = one.category
		for tenant, f := range one.flags {
			set(&l.Flags, tenant, f.Enabled && one.standing == served)
		}
		for persona, p := range one.personas {
			if !p.Allowed {
				l.Personas = append(l.Personas, persona)
			}
		}
		for persona, list := range v.lists {
			if _, said := one.personas[persona]; !said && list.has(one.key.Kind) {
				l.Personas = append(l.Personas, persona)
			}
		}
		slices.Sort(l.Personas)
		out = append(out, l)
	}
	return out
}
