package registry

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store"
)

// is tells whether an entry matches a capability with the given exposed names, see
// [gate.Names].
func (e *SeedEntry) is(k key, names ...string) bool {
	if e.Kind != "" && e.Kind != k.Kind {
		return false
	}
	if e.Name != "" {
		return slices.Contains(names, e.Name)
	}
	return e.Server == k.Server && e.Original == k.Original
}

// String describes the entry so that a person finds it.
func (e *SeedEntry) String() string {
	if e.Name != "" {
		return e.Name
	}
	return e.Server + " " + e.Original
}

// entry returns the first entry that matches a capability, nil when none does.
func (s *Seed) entry(k key, names ...string) *SeedEntry {
	if s == nil {
		return nil
	}
	for i := range s.Entries {
		if s.Entries[i].is(k, names...) {
			return &s.Entries[i]
		}
	}
	return nil
}

// pins tells whether an entry accepts exactly this definition.
func (e *SeedEntry) pins(hash string) bool { return e != nil && e.Definition == hash && hash != "" }

// describe writes an entry into a record. A nil entry writes nothing.
func (e *SeedEntry) describe(r *store.RegistryRecord) {
	if e == nil {
		return
	}
	if e.Enabled != nil {
		r.Enabled, r.Source = *e.Enabled, SourceSeed
	}
	if e.Category != "" {
		r.Category = e.Category
	}
	if e.DisplayName != "" {
		r.DisplayName = e.DisplayName
	}
	if c := Class(e.Class, e.Risk, e.HighCost); c != (store.Class{}) {
		r.Class = c
	}
	r.Change = store.Change{Actor: SourceSeed, Reason: e.At.Place()}
}

// rules writes the flags and restrictions of an entry.
func (e *SeedEntry) rules(ctx context.Context, s *store.Store, id string, by store.Change) error {
	for _, tenant := range slices.Sorted(maps.Keys(e.Tenants)) {
		if err := s.Flags().Set(ctx, tenant, e.Tenants[tenant], by, id); err != nil {
			return err
		}
	}
	for _, persona := range e.AllowPersonas {
		if err := s.Restrictions().Allow(ctx, persona, by, id); err != nil {
			return err
		}
	}
	for _, persona := range e.DenyPersonas {
		if err := s.Restrictions().Add(ctx, persona, by, id); err != nil {
			return err
		}
	}
	return nil
}

// applySeed writes the flags and restrictions of new capabilities before their
// records, so that nothing is ever served without them.
func (r *Registry) applySeed(ctx context.Context, pending []*item) error {
	for _, i := range pending {
		entry := r.s.Seed.entry(i.key, i.exposed, i.unsuffixed)
		if entry == nil || r.tables.byKey[i.key] != nil {
			continue
		}
		if err := entry.rules(ctx, r.o.Store, i.id, store.Change{Actor: SourceSeed, Reason: entry.At.Place()}); err != nil {
			return fmt.Errorf("seed %s: %w", entry, err)
		}
	}
	return nil
}

// plant adds the dynamic servers of the seed. Each is added only once: a removed
// server does not come back.
func (r *Registry) plant(ctx context.Context) error {
	if r.s.Seed == nil || r.planted {
		return nil
	}
	for _, s := range r.s.Seed.Servers {
		mark := "registry/seeded/" + s.Server
		if _, done, err := r.o.Store.Meta().Get(ctx, mark); err != nil {
			return err
		} else if done {
			continue
		}
		by := store.Change{Actor: SourceSeed}
		owner := store.Owner{Tenant: s.Tenant, Principal: gate.Principal{Issuer: Actor, Tenant: s.Tenant, Subject: SourceSeed}.Key()}
		record := store.DynamicRecord{Server: s.Server, Owner: owner, Entry: s.Entry, Arguments: s.Arguments, Change: by}
		added, err := r.o.Store.Dynamic().Add(ctx, record, len(r.s.Seed.Servers)+1)
		if err != nil {
			return err
		}
		if added {
			if _, err := r.o.Store.Dynamic().Promote(ctx, s.Server, by); err != nil {
				return err
			}
		}
		if err := r.o.Store.Meta().Put(ctx, mark, nil); err != nil {
			return err
		}
	}
	r.planted = true
	return nil
}

// alarm logs the entries of the seed that match nothing, once every server has sent
// its list.
func (r *Registry) alarm() {
	if r.s.Seed == nil || r.tables == nil || len(r.offers) == 0 {
		return
	}
	for _, o := range r.offers {
		if !o.of.Confirmed {
			return
		}
	}
	for i := range r.s.Seed.Entries {
		e := &r.s.Seed.Entries[i]
		once := "seed\x00" + e.At.Place() + e.String()
		if r.warned[once] || slices.ContainsFunc(slices.Collect(maps.Values(r.tables.records)), func(record *store.RegistryRecord) bool {
			return e.is(recordKey(record), record.Name)
		}) {
			continue
		}
		r.warned[once] = true
		r.log.LogAttrs(context.Background(), slog.LevelError, "an entry of the seed matches nothing that a server offers", slog.String("name", e.String()), slog.String("at", e.At.Place()))
	}
}

// Unmatched returns the entries that match none of the given records. It finds a
// misspelt name, which would protect nothing.
func (s *Seed) Unmatched(records []store.RegistryRecord) []SeedEntry {
	var out []SeedEntry
	for i := range s.Entries {
		e := &s.Entries[i]
		if !slices.ContainsFunc(records, func(r store.RegistryRecord) bool { return e.is(recordKey(&r), r.Name) }) {
			out = append(out, *e)
		}
	}
	return out
}

// Check refuses a seed with two entries about one capability.
func (s *Seed) Check() error {
	seen := map[string]gate.Rule{}
	for i := range s.Entries {
		e := &s.Entries[i]
		name := strings.Join([]string{e.Kind, e.Name, e.Server, e.Original}, "\x00")
		if before, twice := seen[name]; twice {
			return fmt.Errorf("%s: %s is there already, in line %d", e.At.Place(), e, before.Line)
		}
		seen[name] = e.At
	}
	return nil
}
