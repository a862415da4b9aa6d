package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"
)

const (
	// maxBatch is how many writes one transaction of SQLite commits at most.
	maxBatch = 256
	// maxBatchDelay is how long a write that nobody waits for may wait for others.
	maxBatchDelay = 20 * time.Millisecond
	// commitTimeout bounds one batch, from its first statement to its commit.
	commitTimeout = 10 * time.Second
	// drainTimeout bounds the commits after Run was told to end.
	drainTimeout = 5 * time.Second
	// maxTries is how often one batch is tried, and tryAgain the longest pause before
	// the second try.
	maxTries = 3
	tryAgain = 20 * time.Millisecond
	// pruneEvery is how often Run removes old records.
	pruneEvery = time.Hour
)

// errDrain is the outcome of a write that was still queued when the time to drain was
// over.
var errDrain = errors.New("not written: the store was stopped before the write had its turn")

// Stats are counters since [Open], and the current length of the queue.
type Stats struct {
	Queued  int    // writes that wait for the writer
	Writes  uint64 // writes committed
	Batches uint64 // transactions committed
	Failed  uint64 // writes without a waiting caller that failed
}

// Stats returns the counters of the writer.
func (s *Store) Stats() Stats {
	queued, _ := s.writer.pending()
	c := &s.writer.stats
	return Stats{Queued: queued, Writes: c.writes.Load(), Batches: c.batches.Load(), Failed: c.failed.Load()}
}

// Do runs fn inside a transaction and returns after its commit. An error means that
// nothing of fn was written. An error of fn is returned as it is, and a panic of fn as
// an error; neither affects other writes.
//
// ctx bounds the wait in the queue. Once fn has started, Do returns its outcome after
// 10 s at most, whatever happens to ctx; the context that fn gets is not ctx. fn must
// use only tx, must not keep it, and must not call another method of the store.
//
// On PostgreSQL fn may run again, in a new transaction, when the first was lost to a
// deadlock or with its connection. So running it twice must have the same effects
// outside the store. If the connection was lost during the commit the error is
// [ErrUncertain], the only one after which something may have been written.
//
// While [Store.Run] is not running the write is committed at once, alone.
func (s *Store) Do(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	if err := s.writable(); err != nil {
		return err
	}
	w := newWrite(fn, true)
	direct, err := s.writer.push(ctx, w)
	switch {
	case err != nil:
		return s.unwritten(err)
	case direct:
		return s.commitAlone(ctx, w)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if w.state.CompareAndSwap(stateWaiting, stateAbandoned) {
			return s.unwritten(ctx.Err())
		}
		<-w.done
	}
	return w.err
}

// Enqueue queues fn to be committed within about 20 ms, without waiting for it. It
// returns [ErrQueueFull] without room; it never waits. Later errors are logged and
// counted in [Stats.Failed]. The rules of [Store.Do] for fn apply.
//
// While [Store.Run] is not running the write is committed at once, and its error
// returned.
func (s *Store) Enqueue(fn func(ctx context.Context, tx *Tx) error) error {
	if err := s.writable(); err != nil {
		return err
	}
	w := newWrite(fn, false)
	direct, err := s.writer.push(context.Background(), w)
	switch {
	case err != nil:
		return s.unwritten(err)
	case direct:
		ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
		defer cancel()
		return s.commitAlone(ctx, w)
	}
	return nil
}

// Run is the writer. It commits what [Store.Do] and [Store.Enqueue] queue until ctx
// ends or the store is closed, then commits the rest within 5 s and returns nil. At its
// start and every hour it removes old catalogs and closes expired approvals. A store
// that was unreachable at the start is opened first ([Options.Await]). Only one Run may
// be active.
func (s *Store) Run(ctx context.Context) error {
	if s.write == nil {
		if s.read == nil {
			return ErrClosed
		}
		// A reader has nothing to write, but may be run like a writer.
		select {
		case <-ctx.Done():
		case <-s.writer.closing:
		}
		return nil
	}
	if !s.connectLater(ctx) {
		return nil
	}
	if !s.writer.start() {
		return errors.New("run store: it is closed or already running")
	}
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	s.prune(ctx)
	for s.await(ctx, prune.C) {
		if batch := s.writer.take(s.dialect.maxBatch()); len(batch) > 0 {
			s.commit(context.WithoutCancel(ctx), batch)
		}
	}
	s.drain(context.WithoutCancel(ctx))
	return nil
}

// await waits until a batch should be committed: a caller waits for one of its writes,
// it is full, or its first write has waited for maxBatchDelay. It returns false when
// Run should end.
func (s *Store) await(ctx context.Context, prune <-chan time.Time) bool {
	var lingered <-chan time.Time
	for {
		queued, urgent := s.writer.pending()
		if urgent > 0 || queued >= s.dialect.maxBatch() {
			return ctx.Err() == nil
		}
		if queued > 0 && lingered == nil {
			t := time.NewTimer(maxBatchDelay)
			defer t.Stop()
			lingered = t.C
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.writer.closing:
			return false
		case <-lingered:
			return true
		case <-prune:
			s.prune(ctx)
		case <-s.writer.wake:
		}
	}
}

// drain commits the queued writes and ends the running state. Writes that are not
// reached in time are refused.
func (s *Store) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for !s.writer.stopIfEmpty() {
		batch := s.writer.take(s.dialect.maxBatch())
		if ctx.Err() != nil {
			s.fail(batch, s.unwritten(errDrain))
			continue
		}
		s.commit(ctx, batch)
	}
}

// commitAlone commits one write on the caller's goroutine.
func (s *Store) commitAlone(ctx context.Context, w *write) error {
	w.state.Store(stateTaken)
	select {
	case s.writer.turn <- struct{}{}:
	case <-ctx.Done():
		return s.unwritten(ctx.Err())
	case <-s.writer.closing:
		return s.unwritten(ErrClosed)
	}
	defer func() { <-s.writer.turn }()
	if ctx.Err() != nil {
		return s.unwritten(ctx.Err())
	}
	w.waited = true // its error is returned, not logged
	s.transact(context.WithoutCancel(ctx), []*write{w})
	return w.err
}

// commit commits a batch and reports its outcomes.
func (s *Store) commit(ctx context.Context, batch []*write) {
	if len(batch) == 0 {
		return
	}
	s.writer.turn <- struct{}{} // short: only commitAlone competes, before Run started
	defer func() { <-s.writer.turn }()
	s.transact(ctx, batch)
}

// transact commits batch and reports its outcomes. The caller has the turn.
func (s *Store) transact(ctx context.Context, batch []*write) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	for try := 1; ; try++ {
		outcomes, err := s.try(ctx, batch)
		if err == nil {
			s.settle(batch, outcomes)
			return
		}
		if try == maxTries || errors.Is(err, ErrUncertain) || !s.dialect.retryable(err) || !pause(ctx, tryAgain*time.Duration(try)) {
			s.fail(batch, explain(s.path, "write to store", err))
			return
		}
	}
}

// pause waits for a random part of at most d, so that two conflicting processes do not
// collide again. It returns false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(rand.N(d)):
		return true
	}
}

// try runs the writes of batch inside one transaction and returns the outcome of each,
// or an error when the transaction was not committed.
func (s *Store) try(ctx context.Context, batch []*write) ([]error, error) {
	raw, err := s.beginWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer raw.Rollback() //nolint:errcheck // after Commit it has nothing to do, before it err says why
	outcomes := make([]error, len(batch))
	var bumped []string
	good := uint64(0)
	single := len(batch) == 1 && s.dialect.failsWhole()
	for i, w := range batch {
		tx := &Tx{raw: raw, dialect: s.dialect}
		if single {
			if err := call(ctx, w.fn, tx); err != nil { // rolls back
				return []error{s.explained("write to store", err)}, nil
			}
		} else if outcomes[i], err = s.attempt(ctx, tx, w); err != nil {
			return nil, err
		}
		if outcomes[i] != nil {
			continue
		}
		good++
		for _, topic := range tx.bumped {
			if !slices.Contains(bumped, topic) {
				bumped = append(bumped, topic)
			}
		}
	}
	if err := s.raise(ctx, raw, bumped); err != nil {
		return nil, err
	}
	if err := raw.Commit(); err != nil {
		if s.dialect.uncertain(err) {
			err = fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		return nil, err
	}
	s.writer.stats.batches.Add(1)
	s.writer.stats.writes.Add(good)
	if len(bumped) > 0 {
		s.watchers.signal()
	}
	return outcomes, nil
}

// beginWrite begins a writing transaction. The caller has the turn.
func (s *Store) beginWrite(ctx context.Context) (transaction, error) {
	if s.own != nil {
		return s.own.begin(ctx)
	}
	raw, err := s.write.BeginTx(ctx, s.dialect.writing())
	if err != nil {
		return nil, err
	}
	return &pooled{Tx: raw, all: s.statements}, nil
}

// attempt runs one write with a savepoint. The first result is the write's own outcome.
// The second ends the whole transaction: without its savepoint it is not the one that
// was begun (SQLite rolls back by itself, for example when the disk is full), and after
// a deadlock only a new one can succeed.
func (s *Store) attempt(ctx context.Context, tx *Tx, w *write) (own, whole error) {
	if _, err := tx.raw.ExecContext(ctx, "SAVEPOINT w"); err != nil {
		return nil, err
	}
	if own = call(ctx, w.fn, tx); own == nil {
		_, err := tx.raw.ExecContext(ctx, "RELEASE w")
		if err == nil {
			return nil, nil
		}
		// PostgreSQL has aborted the transaction after a failed statement, even if the
		// write went on.
		own = fmt.Errorf("a statement of the write failed: %w", err)
	}
	if s.dialect.retryable(own) {
		return nil, own
	}
	if _, err := tx.raw.ExecContext(ctx, "ROLLBACK TO w; RELEASE w"); err != nil {
		return own, errors.Join(own, err)
	}
	return s.explained("write to store", own), nil
}

// call runs fn and turns a panic into an error: the writer's goroutine serves everyone
// and must not end for one caller's mistake.
func call(ctx context.Context, fn func(context.Context, *Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a write: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(ctx, tx)
}

// fail gives every write of batch the same error.
func (s *Store) fail(batch []*write, err error) {
	outcomes := make([]error, len(batch))
	for i := range outcomes {
		outcomes[i] = err
	}
	s.settle(batch, outcomes)
}

// settle reports outcomes: to waiting callers, else in one line of log.
func (s *Store) settle(batch []*write, outcomes []error) {
	var first error
	lost := 0
	for i, w := range batch {
		if outcomes[i] != nil && !w.waited {
			lost++
			if first == nil {
				first = outcomes[i]
			}
		}
	}
	// Count before any caller goes on, so that the counters are never behind what a
	// caller knows.
	s.writer.stats.failed.Add(uint64(lost))
	for i, w := range batch {
		w.finish(outcomes[i])
	}
	if lost > 0 {
		s.log.Error("writes to the store are lost", slog.Int("writes", lost), slog.Any("error", first))
	}
}

// writable returns why the store cannot be written, or nil.
func (s *Store) writable() error {
	switch {
	case s.write != nil:
		return s.absent.err()
	case s.read != nil:
		return s.unwritten(ErrReadOnly)
	}
	return ErrClosed
}

// unwritten wraps the reason why a write did not begin.
func (s *Store) unwritten(err error) error {
	return fmt.Errorf("write to store %s: %w", s.path, err)
}

// explained adds advice to an error of the driver. Other errors are the caller's own
// and stay as they are.
func (s *Store) explained(doing string, err error) error {
	if err == nil || advise(err) == "" {
		return err
	}
	return explain(s.path, doing, err)
}

// prune removes old records. A failure is logged and tried again after pruneEvery.
func (s *Store) prune(ctx context.Context) {
	w := newWrite(func(ctx context.Context, tx *Tx) error {
		n, err := pruneCatalogs(ctx, tx, time.Now())
		if err != nil {
			return err
		}
		if n > 0 {
			s.log.Info("removed catalogs that are too old to be served", slog.Int64("catalogs", n))
		}
		closed, err := pruneApprovals(ctx, tx, time.Now())
		if closed > 0 {
			tx.Bump(TopicApprovals)
		}
		if err != nil {
			return err
		}
		return errors.Join(pruneMemories(ctx, tx, time.Now()), pruneSchedules(ctx, tx, time.Now()), pruneVectors(ctx, tx, time.Now(), maxVectors))
	}, false)
	s.commit(context.WithoutCancel(ctx), []*write{w})
}
