package vectors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/proxy/find"
)

// Store keeps vectors of texts. A space stands for a model and a key for a text; both are
// hashes. It is safe for concurrent use.
type Store interface {
	// Load returns those that there are, by their keys.
	Load(ctx context.Context, space string, keys []string) (map[string][]byte, error)
	// Save keeps vectors, in the place of those of the same keys.
	Save(ctx context.Context, space string, vectors map[string][]byte) error
}

// Vectors is a [find.Adviser] that compares what can be found with a query by their
// vectors. It is safe for concurrent use, with one Run.
type Vectors struct {
	store Store
	log   *slog.Logger
	wait  backoff.Backoff // between attempts that fail
	retry time.Duration   // until a text that was set aside is tried again, for the first time

	wake    chan struct{} // capacity 1: there is an index, or a model, that Run has not seen
	latest  atomic.Pointer[weak.Pointer[find.Index]]
	inForce atomic.Pointer[model] // nil for none

	mu  sync.Mutex // of Use
	now Settings
}

// New returns an adviser without a model. Vectors are kept in store.
func New(store Store, log *slog.Logger) *Vectors {
	return &Vectors{store: store, log: log, wake: make(chan struct{}, 1), wait: backoff.Backoff{Max: maxRest}, retry: firstRetry}
}

// Use has other settings in force from now on, whose Check has found nothing. Vectors of
// the settings before are not used any more. It does not block.
func (v *Vectors) Use(s *Settings) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.now.equal(s) {
		return
	}
	v.now = *s
	var next *model
	if s.On() {
		var err error
		if next, err = newModel(s); err != nil {
			v.log.Error("find.embeddings cannot be used", "err", err)
		}
	}
	if before := v.inForce.Swap(next); before != nil {
		before.stop()
	}
	v.signal()
}

func (v *Vectors) signal() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// Problem says for an operator why vectors are missing from the ranking; empty where none
// are.
func (v *Vectors) Problem() string {
	m := v.inForce.Load()
	if m == nil {
		return ""
	}
	if p := m.problem.Load(); p != nil {
		return "vectors of some definitions are missing, so that they are found by their words alone: " + *p
	}
	if err := m.queries.wrong(); err != nil {
		return "vectors of queries are missing, so that the words alone decide: " + err.Error()
	}
	return ""
}

// Advise implements [find.Adviser].
func (v *Vectors) Advise(ctx context.Context, who find.Caller, query string, view *find.View) func(item int) float64 {
	m := v.inForce.Load()
	if m == nil || query == "" {
		return nil
	}
	if find.IsAside(ctx) {
		if q := m.queries.have(asked{who.Tenant, cut(query)}); q != nil {
			return boosts(m.glance(view.Index()).vectors, view, q)
		}
		return nil
	}
	t := v.want(m, view.Index())
	if m.loaded.Load() && !t.some(view) {
		return nil
	}
	q := m.queries.vector(ctx, who, query)
	if q == nil {
		return nil
	}
	t, _ = m.tableOf(view.Index()) // it may have more by now
	return boosts(t.vectors, view, q)
}

// Indexed has the vectors of a new index made before the first search of it. It does not
// block.
func (v *Vectors) Indexed(x *find.Index) {
	if m := v.inForce.Load(); m != nil {
		v.want(m, x)
		return
	}
	if v.announce(x) {
		v.signal() // there may be a model since
	}
}

// want returns the vectors of an index as far as they are known, and has the others made.
func (v *Vectors) want(m *model, x *find.Index) *table {
	t, complete := m.tableOf(x)
	if !complete && v.announce(x) {
		v.signal()
	}
	return t
}

// announce makes an index the latest, and reports whether it was not. The index is not
// held: who no longer searches it lets it go.
func (v *Vectors) announce(x *find.Index) bool {
	next := weak.Make(x)
	if before := v.latest.Load(); before != nil && *before == next {
		return false
	}
	v.latest.Store(&next)
	return true
}

// model is one model in force, with what it made.
type model struct {
	space   string
	client  *client
	queries *queries
	ended   context.Context // when another one is in force
	cancel  context.CancelFunc
	problem atomic.Pointer[string]
	loaded  atomic.Bool // what the store has was read once

	table atomic.Pointer[table] // nil before the first
	mu    sync.Mutex
	known map[string]*vector // by the hash of the definition
	// size is how many dimensions the vectors have, 0 before the first.
	size int

	// trials are of texts that failed, by key. They are Run's alone.
	trials map[string]trial
}

// table has the vectors of the items of one index, nil for those that are missing. It is
// immutable.
type table struct {
	of       weak.Pointer[find.Index]
	vectors  []*vector
	complete bool
}

func newModel(s *Settings) (*model, error) {
	c, err := newClient(s)
	if err != nil {
		return nil, err
	}
	m := &model{space: hash(c.address + "\x00" + c.model), client: c, queries: newQueries(c), known: map[string]*vector{}, trials: map[string]trial{}}
	m.ended, m.cancel = context.WithCancel(context.Background())
	m.queries.check = func(ctx context.Context) error { _, err := m.embed(ctx, probe); return err }
	m.queries.ended = m.ended
	return m, nil
}

// stop ends what is under way.
func (m *model) stop() {
	m.cancel()
	m.client.http.Close()
}

// tableOf returns the vectors of an index, as far as they are known, and whether they all
// are. An index that is new has those of definitions that an earlier one had at once, so
// that a change of what a caller may not view does not take vectors away.
func (m *model) tableOf(x *find.Index) (t *table, complete bool) {
	if t := m.table.Load(); t != nil && t.of == weak.Make(x) {
		return t, t.complete
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.table.Load(); t != nil && t.of == weak.Make(x) {
		return t, t.complete
	}
	t = m.tabulate(x)
	return t, t.complete
}

// glance returns the vectors of an index as far as they are known. It leaves the table of
// the index that is searched.
func (m *model) glance(x *find.Index) *table {
	if t := m.table.Load(); t != nil && t.of == weak.Make(x) {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tableFor(x)
}

// tabulate makes the table of the index that is searched. mu is held.
func (m *model) tabulate(x *find.Index) *table {
	t := m.tableFor(x)
	m.table.Store(t)
	return t
}

// tableFor makes the table of an index. mu is held.
func (m *model) tableFor(x *find.Index) *table {
	t := &table{of: weak.Make(x), vectors: make([]*vector, x.Len()), complete: true}
	for i := range t.vectors {
		t.vectors[i] = m.known[x.Hash(i)]
		t.complete = t.complete && t.vectors[i] != nil
	}
	return t
}

// some reports whether a visible item has a vector.
func (t *table) some(view *find.View) bool {
	for i := range view.Visible() {
		if t.vectors[i] != nil {
			return true
		}
	}
	return false
}

// text returns what is sent of an item.
func text(it *find.Item) string {
	return cut(strings.Join([]string{it.Server, it.Name, it.Title, it.Description}, "\n"))
}

// cut returns the beginning of a text as UTF-8.
func cut(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "")
}

// hash returns the key of a text.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

func (m *model) sized() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size > 0
}

// fits checks the number of dimensions. Where all differ, the model has changed.
func (m *model) fits(v *vector) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size == 0 {
		m.size = len(v.codes)
	}
	if len(v.codes) != m.size {
		return fmt.Errorf("the endpoint returns vectors of %d numbers, and those before have %d: if it has another model, give model its name", len(v.codes), m.size)
	}
	return nil
}
