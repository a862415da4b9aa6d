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
const Name = "registry"

// Actor is who changes the catalog where no person does.
const Actor = "toolgate"

const (
	// pollEach is how often the store is asked for changes that nobody has told
	// of, and thereby whether it is there.
	pollEach = time.Second
	// storeTime bounds one exchange with the store.
	storeTime = 5 * time.Second
	// defaultMaxAge is how old a view may be that decides.
	defaultMaxAge = 30 * time.Second
)

// Policy says what happens to a definition that is new or another. The zero
// Policy holds it.
type Policy string

// The policies.
const (
	Hold   Policy = "hold"
	Enable Policy = "enable"
	// Adopt takes the first list of a server that was never seen as it is, and
	// holds what the server adds later. For changed definitions it is Hold.
	Adopt Policy = "adopt"
)

// Rules are the operator's. The zero Rules hold and disable everything.
type Rules struct {
	// DefaultEnabled says that a capability is enabled that nobody decided about.
	DefaultEnabled bool
	// OnNew and OnChange say what becomes of definitions that nobody has accepted. One
	// that looks made to mislead is held whatever they say.
	OnNew, OnChange Policy
	// Seed is what is written about a capability when it is first seen; nil for
	// nothing.
	Seed *Seed
}

// Options are what a [Registry] is made of. Store is required.
type Options struct {
	Store  *store.Store
	Logger *slog.Logger // nil discards
	// OnChange is called when decisions may be others than before, but not for
	// what [Registry.Record] changes. It must not block. Nil: nobody is.
	OnChange func()
	// Gateway names this gateway among those that share the store, the same after
	// a new start; empty for one that has its store alone.
	Gateway string
	// OnRename is told what clients know under another name than before, once
	// that is recorded. It must not block. Nil: nobody is.
	OnRename func([]Rename)
	// OnOutdated is told the servers that another gateway has seen list something
	// else than they have listed here, so that they are asked again. Nil: nobody is.
	OnOutdated func(servers []string)
	// StandIn is the definition that the gateway itself lists for a server of which
	// nothing is known, see [gate.Offered]. Records of it are as if they were not
	// there. Nil: there is none.
	StandIn []byte
	// MaxAge is how long the store may be out of reach until nothing is decided
	// any more; 0 is 30 s.
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
	fresh atomic.Int64 // when the view was last known to be the store's, in nanoseconds since born

	working sync.Mutex // one change at a time; guards what follows
	own     Rules      // as configured
	others  strictness // of the other gateways; zero until it was read
	s       Rules      // in force
	tables  *tables    // nil until they were read
	offers  map[string]*offer
	seq     uint64
	deaf    bool // the store did not answer the last time
	missed  bool // something that is offered could not be recorded
	warned  map[string]bool
	looks   outdated
	planted bool // the dynamic servers of the seed are there
}

// tables are the catalog in the store at one moment. They are not changed once
// read.
type tables struct {
	records      map[string]*store.RegistryRecord // by capability id, without the texts
	byKey        map[key]*store.RegistryRecord
	servers      map[string]bool // of which there is a record
	flags        []store.FlagRecord
	restrictions []store.RestrictionRecord
	generations  [3]int64
}

// key names a capability as its server does.
type key = store.CapabilityKey

func recordKey(r *store.RegistryRecord) key {
	return key{Server: r.Server, Kind: r.Kind, Original: r.Original}
}

// New returns a registry that denies everything until it has settings and has
// read the store.
func New(o Options) *Registry {
	r := &Registry{o: o, log: o.Logger, wake: make(chan struct{}, 1), offers: map[string]*offer{}, warned: map[string]bool{}, born: time.Now()}
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

// Configure puts settings in force, for what is there and what comes.
func (r *Registry) Configure(s Rules) {
	r.working.Lock()
	defer r.working.Unlock()
	r.own = s
	r.settle()
	r.warned, r.planted = map[string]bool{}, false
	r.publish()
	r.changed()
}

// Changed takes the news that the catalog, the flags or the restrictions in the
// store are others. It does not block.
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

// Healthy returns why the registry decides nothing; nil when it does.
func (r *Registry) Healthy() error {
	_, err := r.current()
	return err
}

// ErrUnavailable is why nothing is decided while the store was out of reach for
// too long, or was never read.
var ErrUnavailable = errors.New("the catalog in the store cannot be read, so that nothing is known to be allowed")

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

// refresh compares the view with the store, and reads what has changed.
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
		if err := r.write(ctx, nil); err != nil {
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

// slim takes from a record what no decision needs: the texts. Of a definition
// the annotations stay, which a class is made of.
func slim(r *store.RegistryRecord) {
	r.Definition = annotations(r.Definition)
	r.Schema, r.Config, r.HeldDefinition = nil, nil, nil
	r.Description = ""
}

// publish makes the view of what there is now.
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

// Record implements the registry of the proxy: see there.
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
