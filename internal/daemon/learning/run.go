package learning

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/learn"
	"github.com/toolgate/toolgate/proxy/findview"
)

const (
	// writeEvery bounds how long a pair waits, and writeBatch how many do.
	writeEvery = time.Second
	writeBatch = 256
	// writeTime bounds one write, shadowTime the ranking of one search, and redactTime the
	// search for secrets in its words.
	writeTime  = 5 * time.Second
	shadowTime = 2 * time.Second
	redactTime = 100 * time.Millisecond
	// pruneFirst is how long after its start a gateway removes old pairs, and pruneEvery how
	// often it does so then.
	pruneFirst = time.Minute
	pruneEvery = 10 * time.Minute
	// maxRead is how much of a query is read before secrets are looked for.
	maxRead = 16 << 10
)

// worker makes pairs. It belongs to the goroutine of Run.
type worker struct {
	*Service
	recent  recent
	waiting []store.SearchPair
	said    uint64 // how many events were dropped when it was last said
}

// Run pairs searches and calls, and keeps the models as the store has them, until ctx
// ends.
func (s *Service) Run(ctx context.Context) error {
	w := &worker{Service: s, recent: recent{}}
	w.reload(ctx)
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	prune := time.NewTimer(pruneFirst)
	defer prune.Stop()
	for {
		select {
		case <-ctx.Done():
			w.flush(ctx)
			return nil
		case e := <-s.events:
			w.take(ctx, &e)
		case <-s.changed:
			w.forget(time.Now())
			w.reload(ctx)
		case now := <-tick.C:
			w.flush(ctx)
			w.recent.expire(now)
			w.forget(now)
			if s.o.Mode() == findview.LearningOff {
				clear(w.recent)
			}
			if n := s.dropped.Load(); n != w.said {
				w.said = n
				s.o.Log.Warn("searches are not learned from: there are too many at once", "dropped", n)
			}
		case now := <-prune.C:
			if err := w.prune(ctx, now); err != nil && ctx.Err() == nil {
				s.o.Log.Warn("old searches stay", "err", err)
			}
			prune.Reset(pruneEvery)
		}
	}
}

// Changed is told that models have changed in the store.
func (s *Service) Changed() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (w *worker) take(ctx context.Context, e *event) {
	if e.search != nil {
		w.search(ctx, e.search, e.at)
		return
	}
	p, ok := w.recent.pair(e.call, e.at)
	if !ok {
		return
	}
	if p.Shadow != 0 {
		w.o.Compared(p.Place, p.Shadow)
	}
	if w.waiting = append(w.waiting, p); len(w.waiting) >= writeBatch {
		w.flush(ctx)
	}
}

// search keeps a search until calls follow it. One with a secret in its words is not kept,
// and neither is one from before its tenant was forgotten.
func (w *worker) search(ctx context.Context, of *proxy.Searched, at time.Time) {
	if w.isForgotten(of.Identity.Tenant, at) {
		return
	}
	text := of.Query.Text[:min(len(of.Query.Text), maxRead)]
	if _, secrets, err := w.o.Redact.Text(text, time.Now().Add(redactTime)); err != nil || secrets > 0 || len(of.Shown) == 0 {
		return
	}
	s := search{
		tenant: of.Identity.Tenant, query: text[:min(len(text), store.MaxSearchQuery)],
		shown: of.Shown, at: at,
	}
	if of.View != nil && w.model(s.tenant) != nil && w.o.Mode() == findview.LearningShadow {
		s.shadow, s.shadowed = w.shadow(ctx, of), true
	}
	w.recent.add(of.Identity.Key(), s)
}

// shadow returns the names that a search would find with what was learned, best first: as
// many as were looked for, so that their places can be compared with those of the answer.
func (w *worker) shadow(ctx context.Context, of *proxy.Searched) (names []string) {
	ctx, cancel := context.WithTimeout(find.Aside(With(ctx, true)), shadowTime)
	defer cancel()
	q := of.Query
	q.Boost = find.Advise(ctx, w.o.Advisers(), find.Caller{Tenant: of.Identity.Tenant, Principal: of.Identity.Key()}, q.Text, of.View)
	for _, h := range of.View.Search(q).Hits {
		names = append(names, of.View.Index().Name(h.Item))
	}
	return names
}

// flush writes what waits, also when ctx has just ended. What cannot be written is
// dropped.
func (w *worker) flush(ctx context.Context) {
	w.forget(time.Now())
	if len(w.waiting) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	if err := w.o.Store.Add(ctx, w.waiting); err != nil {
		w.o.Log.Warn("searches cannot be kept", "pairs", len(w.waiting), "err", err)
	}
	w.waiting = w.waiting[:0]
}

// forget drops what is in memory of tenants that were forgotten. The store keeps nothing
// of them either, for gateways that are told of it later.
func (w *worker) forget(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for tenant, at := range w.forgotten {
		w.recent.forget(tenant, at)
		w.waiting = slices.DeleteFunc(w.waiting, func(p store.SearchPair) bool { return p.Tenant == tenant && !p.Searched.After(at) })
		if now.Sub(at) > 2*maxAge {
			delete(w.forgotten, tenant)
		}
	}
}

func (s *Service) isForgotten(tenant string, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.forgotten[tenant]
	return ok && !at.After(until)
}

func (w *worker) reload(ctx context.Context) {
	if err := w.load(ctx); err != nil && ctx.Err() == nil {
		w.o.Log.Warn("what was learned of searches cannot be read", "err", err)
	}
}

// load reads the models that have changed. One that cannot be read counts as none.
func (s *Service) load(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	list, err := s.o.Store.Models(ctx)
	if err != nil {
		return err
	}
	before, now := *s.models.Load(), make(map[string]held, len(list))
	for i := range list {
		of := &list[i]
		if known, ok := before[of.Tenant]; ok && known.version == of.Version {
			now[of.Tenant] = known
			continue
		}
		stored, ok, err := s.o.Store.Model(ctx, of.Tenant)
		if err != nil {
			return err
		}
		m, err := learn.Decode(stored.Model)
		if !ok || err != nil {
			s.o.Log.Warn("what was learned of a tenant is left out", "tenant", of.Tenant, "bytes", len(stored.Model), "err", err)
			m = nil
		}
		now[of.Tenant] = held{m, max(of.Version, stored.Version)}
	}
	s.models.Store(&now)
	return nil
}

// prune removes old searches from the store, and from the models the words of none but
// these.
func (w *worker) prune(ctx context.Context, now time.Time) error {
	err := w.o.Store.Prune(ctx, now)
	for tenant, m := range *w.models.Load() {
		if m.Model == nil {
			continue
		}
		less, changed := m.Since(now.Add(-store.SearchPairsKept))
		if !changed {
			continue
		}
		next := store.SearchModel{Tenant: tenant, Version: m.version}
		if less != nil {
			text, encoding := less.Encode()
			if err = errors.Join(err, encoding); encoding != nil {
				continue
			}
			next.Model = text
		}
		err = errors.Join(err, w.o.Store.Shorten(ctx, next))
	}
	return err
}
