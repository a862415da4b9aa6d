package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store"
)

// Name is the name of the phase.
const Name = gate.RegistryPhase

// Actor is the actor of changes to the catalog that no person makes.
const Actor = "toolgate"

const (
	// pollEach is how often the store is asked for changes that were not announced. The
	// question also shows whether the store is reachable.
	pollEach = time.Second
	// storeTime bounds one exchange with the store.
	storeTime = 5 * time.Second
	// defaultMaxAge is the age up to which a view may decide.
	defaultMaxAge = 30 * time.Second
)

// Policy says what happens to a new or changed definition. The zero Policy holds it.
type Policy string

// The policies.
const (
	Hold   Policy = "hold"
	Enable Policy = "enable"
	// Adopt accepts the first list of an unknown server as it is, and holds what the
	// server adds later. For changed definitions it is Hold.
	Adopt Policy = "adopt"
)

// Rules are the operator's settings. The zero Rules hold and disable everything.
type Rules struct {
	// DefaultEnabled enables capabilities about which nobody has decided.
	DefaultEnabled bool
	// OnNew and OnChange say what happens to definitions that nobody has accepted. A
	// definition that looks misleading is held in any case.
	OnNew, OnChange Policy
	// Seed holds the initial rules of capabilities, applied when each is first seen;
	// nil for none.
	Seed *Seed
	// Shipped describes capabilities about which nobody has decided; nil for none.
	Shipped *Shipped
	// Describe returns what else is said of a capability; nil says nothing. It must not
	// block, and be safe for concurrent use.
	Describe func(k store.CapabilityKey, names gate.Names) Description
}

// Options are what a [Registry] is made of. Store is required.
type Options struct {
	Store  *store.Store
	Logger *slog.Logger // nil discards
	// OnChange is called when decisions may have changed, except for changes made by
	// [Registry.Record]. It must not block. Nil: nothing is called.
	OnChange func()
	// Gateway names this gateway among those that share the store. It stays the same
	// across restarts; empty for a gateway with its own store.
	Gateway string
	// OnRename is called with the capabilities whose exposed name has changed, once
	// that is recorded. It must not block. Nil: nothing is called.
	OnRename func([]Rename)
	// OnOutdated is called with the servers that another gateway has seen list
	// something newer, so that they are asked again. Nil: nothing is called.
	OnOutdated func(servers []string)
	// StandIn is the definition that the gateway lists for a server that it knows
	// nothing about yet, see [gate.Offered]. Records of it are ignored. Nil: there is
	// none.
	StandIn []byte
	// MaxAge is how long decisions continue while the store is out of reach; 0 is 30 s.
	MaxAge time.Duration
}

// Registry keeps a view of the catalog in the store. Make one with [New], give
// it settings with [Registry.Configure], and keep it up to date with
// [Registry.Run]. The zero Registry, and a nil one, deny everything. It is safe
// for concurrent use.
type Registry struct {
	o    Options
	log  *slog.Logger
	wake chan struct{} // capacity 1

	view  atomic.Pointer[view]
	born  time.Time
	fresh atomic.Int64 // when the view last equaled the store, in nanoseconds since born

	working sync.Mutex // one change at a time; guards what follows
	own     Rules      // as configured
	others  strictness // of the other gateways; zero until first read
	s       Rules      // in force
	tables  *tables    // nil until first read
	offers  map[string]*offer
	seq     uint64
	deaf    bool // the store did not answer last time
	missed  bool // an offered item could not be recorded
	// described tells that the records have what the rules in force say of them.
	described bool
	warned    map[string]bool
	adopted   map[key]bool // what known servers added or changed, and is served unseen
	looks     outdated
	planted   bool // the dynamic servers of the seed were added
}

// tables are the catalog in the store at one moment. They are immutable.
type tables struct {
	records      map[string]*store.RegistryRecord // by capability id, without the texts
	byKey        map[key]*store.RegistryRecord
	servers      map[string]bool // with at least one record
	flags        []store.FlagRecord
	restrictions []store.RestrictionRecord
	generations  [3]int64
}

// key names a capability by its server, kind and original name.
type key = store.CapabilityKey

func recordKey(r *store.RegistryRecord) key {
	return key{Server: r.Server, Kind: r.Kind, Original: r.Original}
}

// New returns a registry. It denies everything until it has settings and has read the
// store.
func New(o Options) *Registry {
	r := &Registry{o: o, log: o.Logger, wake: make(chan struct{}, 1), offers: map[string]*offer{}, warned: map[string]bool{}, adopted: map[key]bool{}, born: time.Now()}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.o.MaxAge <= 0 {
		r.o.MaxAge = defaultMaxAge
	}
	return r
}

// Phase returns the phase of the gate.
func (r *Registry) Phase() *Phase { return &Phase{registry: r} }

// Configure puts settings in force, for known and for future capabilities.
func (r *Registry) Configure(s Rules) {
	r.working.Lock()
	defer r.working.Unlock()
	r.own = s
	r.settle()
	r.warned, r.planted = map[string]bool{}, false
	r.missed, r.described = true, false
	for _, o := range r.offers {
		for i := range o.items {
			o.items[i].said = nil
		}
	}
	r.publish()
	r.changed()
}

// Changed tells the registry that the catalog, flags or restrictions in the store have
// changed. It does not block.
func (r *Registry) Changed() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run keeps the view up to date until ctx ends, and returns nil then.
func (r *Registry) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEach)
	defer tick.Stop()
	for {
		r.refresh(ctx)
		r.tellOutdated()
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-tick.C:
		}
	}
}

// Healthy returns why the registry decides nothing; nil when it works.
func (r *Registry) Healthy() error {
	_, err := r.current()
	return err
}

// ErrUnavailable is returned while the store was never read, or was out of reach for
// too long.
var ErrUnavailable = errors.New("the catalog in the store cannot be read, so every request is denied")

// current returns the view that decides.
func (r *Registry) current() (*view, error) {
	if r == nil {
		return nil, ErrUnavailable
	}
	v := r.view.Load()
	if v == nil || time.Since(r.born)-time.Duration(r.fresh.Load()) > r.o.MaxAge {
		return nil, ErrUnavailable
	}
	return v, nil
}

// refresh compares the view with the store, and reads the changes.
func (r *Registry) refresh(ctx context.Context) {
	r.working.Lock()
	defer r.working.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	asked := time.Now()
	generations, err := r.o.Store.Generations(ctx)
	if err != nil {
		r.unreachable(ctx, err)
		return
	}
	agreed, err := r.agree(ctx)
	if err != nil {
		r.unreachable(ctx, err)
		return
	}
	before := r.tables
	news := before == nil || before.generations != pick(generations)
	if news {
		if err := r.load(ctx); err != nil {
			r.unreachable(ctx, err)
			return
		}
	} else {
		r.confirmed(asked)
	}
	r.looks.compare(r.tables, r.offers, time.Now())
	if r.missed || news {
		if err := r.write(ctx, nil); err != nil && ctx.Err() == nil {
			r.log.Error("definitions cannot be recorded; they are not served", "err", err)
		}
	}
	if err := r.plant(ctx); err != nil {
		r.log.Error("the servers of the seed cannot be added", "err", err)
	}
	if r.tables != before || agreed {
		r.publish()
		r.changed()
	}
	r.alarm()
}

func pick(generations map[string]int64) [3]int64 {
	return [3]int64{generations[store.TopicRegistry], generations[store.TopicFlags], generations[store.TopicRestrictions]}
}

func (r *Registry) confirmed(at time.Time) {
	r.fresh.Store(int64(at.Sub(r.born)))
	if r.deaf {
		r.deaf = false
		r.log.Info("the catalog in the store can be read again")
	}
}

func (r *Registry) unreachable(ctx context.Context, err error) {
	if !r.deaf && !errors.Is(ctx.Err(), context.Canceled) {
		r.deaf = true
		r.log.Error("the catalog in the store cannot be read", "err", err, "deny_after", r.o.MaxAge)
	}
}

// load reads the tables.
func (r *Registry) load(ctx context.Context) error {
	asked := time.Now()
	t := &tables{records: map[string]*store.RegistryRecord{}, byKey: map[key]*store.RegistryRecord{}, servers: map[string]bool{}}
	records, generation, err := r.o.Store.Registry().List(ctx, store.RegistryFilter{})
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	t.generations[0] = generation
	for i := range records {
		if r.standsIn(&records[i]) {
			continue
		}
		slim(&records[i])
		t.records[records[i].ID] = &records[i]
		t.byKey[recordKey(&records[i])] = &records[i]
		t.servers[records[i].Server] = true
	}
	r.unsee(t, records)
	if t.flags, t.generations[1], err = r.o.Store.Flags().List(ctx, ""); err != nil {
		return fmt.Errorf("read the flags: %w", err)
	}
	if t.restrictions, t.generations[2], err = r.o.Store.Restrictions().List(ctx, ""); err != nil {
		return fmt.Errorf("read the restrictions: %w", err)
	}
	r.tables = t
	r.confirmed(asked)
	return nil
}

// slim removes the texts from a record, because no decision needs them. The
// annotations of the definition stay: the class is derived from them.
func slim(r *store.RegistryRecord) {
	r.Definition = annotations(r.Definition)
	r.Schema, r.HeldDefinition = nil, nil
	r.Description = ""
}

// publish builds the view of the current state.
func (r *Registry) publish() {
	if r.tables == nil {
		return
	}
	r.seq++
	r.view.Store(newView(r.s, r.tables, maps.Clone(r.offers), r.seq))
}

func (r *Registry) changed() {
	if r.o.OnChange != nil {
		r.o.OnChange()
	}
}

// Record implements the registry of the proxy.
func (r *Registry) Record(ctx context.Context, offers []*gate.Offer) {
	r.working.Lock()
	defer r.working.Unlock()
	changed := r.take(offers)
	if changed == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := r.write(ctx, changed); err != nil {
		r.log.Error("definitions cannot be recorded; they are not served", "err", err)
	}
	r.publish()
}
