package findview

import (
	"context"
	"iter"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/proxy/find"
)

// Catalog is one generation of what can be found.
type Catalog[K comparable] struct {
	// Items are what can be found, each with its identity. They are read again where their
	// texts are needed, and are the same each time.
	Items iter.Seq2[K, func() find.Item]
	// Servers are the instructions of the servers, by their names.
	Servers map[string]string
}

// Index is the search index of the latest catalog. It is built off the request path: the
// one of the catalog before serves until then. K identifies an item for as long as its
// definition is the same. The zero value finds nothing. It is safe for concurrent use,
// with one Run.
type Index[K comparable] struct {
	// Indexed, if it is not nil, is told of each index. It must not block.
	Indexed func(*find.Index)

	latest  atomic.Pointer[Catalog[K]]
	changed chan struct{} // capacity 1
	built   atomic.Pointer[Built[K]]
	pausing atomic.Bool // after one index and before the next
}

// NewIndex returns an index of nothing.
func NewIndex[K comparable]() *Index[K] { return &Index[K]{changed: make(chan struct{}, 1)} }

// Set takes a new catalog, which Run puts into the index. It does not block.
func (x *Index[K]) Set(c *Catalog[K]) {
	x.latest.Store(c)
	select {
	case x.changed <- struct{}{}:
	default:
	}
}

// Run builds the index of each new catalog until ctx ends. Catalogs that follow while it
// builds become one, and so do those of a pause that is longer than that, so that a server
// which changes its list all the time takes a part of one processor only. A catalog that
// cannot be indexed leaves the index of the one before.
func (x *Index[K]) Run(ctx context.Context, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.changed:
		}
		began := time.Now()
		x.next(log)
		x.pausing.Store(true)
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(9*time.Since(began), maxPause)):
		}
		x.pausing.Store(false)
	}
}

// maxPause bounds the pause after an index was built.
const maxPause = time.Second

// next builds the index of the latest catalog.
func (x *Index[K]) next(log *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic while the search index was built", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	next := build(x.latest.Load(), x.built.Load())
	x.built.Store(next)
	if x.Indexed != nil {
		x.Indexed(next.Index)
	}
}

// How long a search waits for an index that is being built, and for the first of all.
const (
	maxAwait      = 50 * time.Millisecond
	maxAwaitFirst = 5 * time.Second
)

// Await waits a moment for the index of the latest catalog, if that is being built, and
// longer for the first of all. While catalogs follow one another it does not wait. It
// returns when ctx ends.
func (x *Index[K]) Await(ctx context.Context) {
	behind := func() bool {
		b := x.built.Load()
		return b == nil || b.of != x.latest.Load() && !x.pausing.Load()
	}
	if !behind() {
		return
	}
	most := maxAwait
	if x.built.Load() == nil {
		most = maxAwaitFirst
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for behind() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Current returns the latest index, nil where none has been built yet.
func (x *Index[K]) Current() *Built[K] { return x.built.Load() }
