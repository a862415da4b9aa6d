package registry

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// Sources of a record: who decided whether it is enabled.
const (
	SourceDiscovery = "discovery" // nobody: a server listed it
	SourceDynamic   = "dynamic"   // nobody: a server listed it that an agent has added
	SourceShipped   = "shipped"   // nobody, and toolgate itself has described it, see [Shipped]
	SourceSeed      = "seed"      // the seed file
	SourceOperator  = "operator"  // a person
)

// Limits of a record. What exceeds them is never served.
const (
	maxDefinition = 4 << 20 // bytes, as the store keeps it
	maxNames      = 60 << 10
	maxProse      = 4 << 10 // bytes of a description or title stored beside the definition
)

// offer is the list of one server here, with what is known of each item.
type offer struct {
	of    *gate.Offer
	items []item
}

// item is one capability that a server lists here.
type item struct {
	key        key
	id         string // empty until one is issued
	exposed    string
	unsuffixed string // see [gate.Names]
	definition []byte
	hash       string   // of the canonical definition, in hex
	suspicion  []string // why a person should look at it
	fault      string   // why it cannot be recorded; empty for nothing
	native     bool     // belongs to the gateway itself and needs no acceptance
	external   bool     // native, but answered by another service
	standIn    bool     // stands in for the server's own list, see [gate.Offered]
	added      bool     // of a server that an agent has added

	said *Description // see [Rules.describe]; nil until it is asked for
}

func (i *item) names() gate.Names { return gate.Names{Exposed: i.exposed, Unsuffixed: i.unsuffixed} }

// Hash identifies a definition: it is the SHA-256 of its canonical form, in hex.
func Hash(definition []byte) string {
	sum := mcp.Hash(definition)
	return hex.EncodeToString(sum[:])
}

// take stores the servers' lists and returns the servers whose list has changed; nil
// when none has.
func (r *Registry) take(offers []*gate.Offer) map[string]bool {
	changed := map[string]bool{}
	names := newNames(offers)
	present := make(map[string]bool, len(offers))
	for _, of := range offers {
		present[of.Server] = true
		if before := r.offers[of.Server]; before != nil && before.of == of {
			continue
		}
		changed[of.Server] = true
		r.offers[of.Server] = inspect(of, names)
		r.looks.listed(of.Server)
	}
	for server := range r.offers {
		if !present[server] {
			delete(r.offers, server)
			changed[server] = true
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return changed
}

// inspect checks everything that a server lists.
func inspect(of *gate.Offer, names *names) *offer {
	o := &offer{of: of, items: make([]item, 0, len(of.Items))}
	listed := map[key]int{}
	for i := range of.Items {
		from := &of.Items[i]
		one := item{
			key: key{Server: of.Server, Kind: from.Kind.String(), Original: from.Original},
			id:  from.CapabilityID, exposed: from.Exposed, unsuffixed: from.Unsuffixed, definition: from.Definition, hash: Hash(from.Definition),
			native: of.Native, external: from.External, standIn: from.StandIn, added: of.Added,
		}
		if !of.Native && !one.standIn {
			one.suspicion = suspicious(of, from, names)
		}
		switch {
		case len(from.Definition) > maxDefinition:
			one.fault = "its definition is too large"
		case len(from.Original)+len(from.Exposed) > maxNames:
			one.fault = "its name is too long"
		}
		if at, twice := listed[one.key]; twice { // nobody can tell which of the two a client saw
			if o.items[at].hash != one.hash {
				o.items[at].fault = "its server lists it twice, with different definitions"
			}
			continue
		}
		listed[one.key] = len(o.items)
		o.items = append(o.items, one)
	}
	if of.Instructions != nil {
		o.items = append(o.items, inspectInstructions(of, names))
	}
	return o
}

// write records the lists of the servers in changed, and of all other servers the
// items that are not recorded yet. Afterwards the tables equal the store.
func (r *Registry) write(ctx context.Context, changed map[string]bool) error {
	r.missed = true
	if r.tables == nil {
		if err := r.load(ctx); err != nil {
			return err
		}
	}
	if _, err := r.agree(ctx); err != nil {
		return err
	}
	pending := r.pending(changed)
	gone := r.gone(changed)
	missed := len(r.looks.looking) > 0
	if len(pending) == 0 && len(gone) == 0 {
		r.missed, r.described = missed, true
		return nil
	}
	if err := r.identify(ctx, pending); err != nil {
		return err
	}
	if err := r.applySeed(ctx, pending); err != nil {
		return err
	}
	ids := slices.Clone(gone)
	for _, p := range pending {
		ids = append(ids, p.id)
	}
	seen, renames := maps.Clone(r.tables.servers), r.renames(pending)
	var adopted []key
	wrote := false
	err := r.o.Store.Registry().Update(ctx, ids, func(existing map[string]store.RegistryRecord) ([]store.RegistryRecord, error) {
		var out []store.RegistryRecord
		adopted = nil
		for _, p := range pending {
			before, ok := existing[p.id]
			known := ok && (seen[p.key.Server] || before.AcceptedHash != emptyInstructions)
			next, write := r.next(before, known, p, seen[p.key.Server])
			if write {
				out = append(out, next)
			}
			if seen[p.key.Server] && !p.native && next.AcceptedHash != before.AcceptedHash {
				adopted = append(adopted, p.key)
			}
		}
		for _, id := range gone {
			if record, ok := existing[id]; ok && record.State != store.StateOrphaned {
				record.State = store.StateOrphaned
				out = append(out, record)
			}
		}
		wrote = len(out) > 0
		return out, nil
	})
	if err != nil {
		return fmt.Errorf("record definitions: %w", err)
	}
	if len(gone) > 0 {
		if _, err := r.o.Store.Registry().Prune(ctx, SourceDynamic); err != nil {
			return err
		}
	}
	if err := r.reload(ctx, ids, wrote); err != nil {
		return err
	}
	r.tell(pending)
	for _, k := range adopted {
		r.adopted[k] = true
	}
	if r.o.OnRename != nil && len(renames) > 0 {
		r.o.OnRename(renames)
	}
	r.missed, r.described = missed, true
	return nil
}

// maxReread is how many records are read one by one after they were written.
const maxReread = 32

// reload reads the tables again after a write of some records. It reads these records alone
// where the tables are those before the write: then nobody else has changed anything, and no
// record was removed.
func (r *Registry) reload(ctx context.Context, ids []string, wrote bool) error {
	asked, before := time.Now(), r.tables
	if len(ids) > maxReread {
		return r.load(ctx)
	}
	next := *before
	next.records, next.byKey = maps.Clone(before.records), maps.Clone(before.byKey)
	if wrote {
		next.generations[0]++
	}
	for _, id := range ids {
		record, ok, err := r.o.Store.Registry().Get(ctx, id)
		if err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		if !ok || !before.servers[record.Server] || r.standsIn(&record) {
			return r.load(ctx)
		}
		slim(&record)
		next.records[id], next.byKey[recordKey(&record)] = &record, &record
	}
	generations, err := r.o.Store.Generations(ctx)
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	if pick(generations) != next.generations {
		return r.load(ctx)
	}
	r.tables = &next
	r.confirmed(asked)
	return nil
}

// pending returns the items that the store does not have in their current form.
func (r *Registry) pending(changed map[string]bool) []*item {
	var out []*item
	now := time.Now()
	for _, server := range slices.Sorted(maps.Keys(r.offers)) {
		items, waits := r.offers[server].items, r.looks.waits(server, now)
		for i := range items {
			one := &items[i]
			record := r.tables.byKey[one.key]
			switch {
			case one.standIn:
			case one.fault != "":
				r.warn(one)
			case record == nil:
				out = append(out, one)
			case waits && !changed[server]:
				// it is about to list what the store has
			case one.hash != record.AcceptedHash && one.hash != record.HeldHash:
				out = append(out, one)
			case changed[server] && (record.Name != one.exposed || record.State == store.StateOrphaned ||
				record.State == store.StateHeld && one.hash == record.AcceptedHash):
				out = append(out, one)
			case (changed[server] || !r.described) && (!r.s.describe(one).in(record) || r.s.Shipped.news(record) != nil):
				out = append(out, one)
			}
		}
	}
	return out
}

// gone returns the ids of items that the servers in changed no longer list. What agents have
// registered is gone with its namespace, too: nothing else comes back under it by itself.
func (r *Registry) gone(changed map[string]bool) []string {
	var out []string
	for id, record := range r.tables.records {
		o := r.offers[record.Server]
		if !changed[record.Server] || record.State == store.StateOrphaned {
			continue
		}
		if o == nil {
			if record.Source == SourceDynamic && record.Provider != store.ProviderMCP {
				out = append(out, id)
			}
			continue
		}
		if !o.of.Confirmed {
			continue
		}
		k := recordKey(record)
		if !slices.ContainsFunc(o.items, func(i item) bool { return i.key == k }) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// identify looks up the ids of items that were listed without one.
func (r *Registry) identify(ctx context.Context, items []*item) error {
	var without []*item
	var keys []key
	for _, i := range items {
		if i.id == "" {
			without, keys = append(without, i), append(keys, i.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	ids, err := r.o.Store.Capabilities().IDs(ctx, keys)
	if err != nil {
		return err
	}
	for n, i := range without {
		i.id = ids[n]
	}
	return nil
}

// next returns the new record of an item, and whether it differs from the one before.
func (r *Registry) next(before store.RegistryRecord, known bool, i *item, serverSeen bool) (next store.RegistryRecord, write bool) {
	if !known {
		return r.first(i, serverSeen), true
	}
	next = before
	next.Name = i.exposed
	if r.s.Shipped.news(&next) != nil {
		r.s.Shipped.write(&next)
	}
	r.s.describe(i).write(&next)
	switch {
	case i.hash == before.AcceptedHash:
		next.State, next.HeldDefinition, next.HeldHash = store.StateActive, nil, ""
	case i.hash == before.HeldHash:
		next.State = store.StateHeld
	case i.native, before.AcceptedHash != "" && r.s.OnChange == Enable && len(i.suspicion) == 0:
		next.Flagged = i.suspicion
		accept(&next, i.definition, i.hash)
	default:
		next.State, next.Flagged = store.StateHeld, i.suspicion
		next.HeldDefinition, next.HeldHash = i.definition, i.hash
	}
	same := r.s.describe(i).in(&before) && next.Source == before.Source && next.Name == before.Name && next.State == before.State && next.HeldHash == before.HeldHash && next.AcceptedHash == before.AcceptedHash
	return next, !same
}

// first returns the record of an item seen for the first time.
func (r *Registry) first(i *item, serverSeen bool) store.RegistryRecord {
	next := store.RegistryRecord{
		ID: i.id, Kind: i.key.Kind, Server: i.key.Server, Original: i.key.Original, Name: i.exposed,
		Enabled: r.s.DefaultEnabled, Provider: store.ProviderMCP, Source: SourceDiscovery, Flagged: i.suspicion,
		Change: store.Change{Actor: Actor, Reason: "first seen"},
	}
	if i.added {
		next.Source = SourceDynamic
	}
	entry := r.s.Seed.entry(i.key, i.exposed, i.unsuffixed)
	entry.describe(&next)
	r.s.Shipped.write(&next)
	r.s.describe(i).write(&next)
	vouched := entry != nil && entry.Definition == "" || entry.pins(i.hash)
	// A server's instructions count as part of its first list, so they are never new
	// later.
	adopted := r.s.OnNew == Enable || r.s.OnNew == Adopt && (!serverSeen || i.key.Kind == KindInstructions)
	keep := !vouched && !adopted && i.hash != emptyInstructions
	if entry != nil && entry.Definition != "" && !entry.pins(i.hash) {
		keep = true // it is not the definition that the seed names
	}
	if len(i.suspicion) > 0 && !entry.pins(i.hash) {
		keep = true
	}
	if i.native {
		next.Provider, keep = store.ProviderNative, false
		if i.external {
			next.Provider = store.ProviderExternal
		}
	}
	if keep {
		next.State, next.HeldDefinition, next.HeldHash = store.StateHeld, i.definition, i.hash
		return next
	}
	accept(&next, i.definition, i.hash)
	return next
}

// accept makes a definition the served one.
func accept(r *store.RegistryRecord, definition []byte, hash string) {
	if r.DisplayName == "" || r.DisplayName == ownTitle(r.Definition) { // else a seed has given it
		r.DisplayName = prose(definition, "title")
	}
	r.State, r.Definition, r.DefinitionHash, r.AcceptedHash = store.StateActive, definition, hash, hash
	r.HeldDefinition, r.HeldHash = nil, ""
	r.Schema = mcp.Lookup(definition, "inputSchema")
	r.Description = prose(definition, "description")
}

// ownTitle is the title that a definition has, as it is recorded.
func ownTitle(definition []byte) string { return store.Readable(prose(definition, "title")) }

func prose(definition []byte, member string) string {
	text, _ := mcp.LookupString(definition, member)
	if len(text) > maxProse {
		text = text[:maxProse]
	}
	return text
}

// tell logs what a person should know about the recorded items.
func (r *Registry) tell(items []*item) {
	for _, i := range items {
		record := r.tables.byKey[i.key]
		switch {
		case record == nil:
		case len(i.suspicion) > 0 && i.hash == record.HeldHash:
			r.log.Warn("a definition looks like prompt injection and is held; look at it with `toolgate catalog show`; `toolgate catalog accept` serves it anyway",
				"name", i.exposed, "server", i.key.Server, "held", true, "why", i.suspicion)
		case len(i.suspicion) > 0:
			r.log.Warn("a definition looks like prompt injection", "name", i.exposed, "server", i.key.Server, "held", i.hash == record.HeldHash, "why", i.suspicion)
		case i.hash == record.HeldHash && record.AcceptedHash != "":
			r.log.Warn("a definition has changed and is held; see `toolgate catalog diff`", "name", i.exposed, "server", i.key.Server)
		case i.hash == record.HeldHash:
			r.log.Warn("a new definition is held; see `toolgate catalog show`", "name", i.exposed, "server", i.key.Server)
		}
	}
}

// warn logs once why an item cannot be recorded.
func (r *Registry) warn(i *item) {
	once := i.key.Server + "\x00" + i.key.Kind + "\x00" + i.key.Original + "\x00" + i.fault
	if r.warned[once] || len(r.warned) > maxWarned {
		return
	}
	r.warned[once] = true
	r.log.Warn("a definition cannot be recorded and is not served", "name", shown(i.exposed, 80), "server", i.key.Server, "why", i.fault)
}

// maxWarned bounds how many warnings are remembered.
const maxWarned = 10_000
