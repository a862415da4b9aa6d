package store

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolgate/toolgate/internal/backoff"
)

const (
	// channel carries the notifications of PostgreSQL.
	channel = "toolgate_generation"
	// pollEvery bounds the delay of a lost notification.
	pollEvery = time.Second
	// pollTimeout bounds one poll.
	pollTimeout = 5 * time.Second
	// The pause before listening again doubles from the first to the last of these.
	listenAgainMin = 100 * time.Millisecond
	listenAgainMax = 5 * time.Second
	// probeEvery is how often a silent listening connection is probed.
	probeEvery = 15 * time.Second
)

// Watch calls changed for every topic whose generation has risen, until ctx ends; then
// it returns nil. It begins with the current generations, so that nothing is missed
// between reading a topic and watching it. One goroutine makes the calls, sorted by
// topic. Several quick changes may be reported as one, with the last generation.
//
// A change by this process is reported at once. A change by another process is reported
// when PostgreSQL notifies of it, and after 1 s at the latest: the generations are
// polled that often, which is also how a read-only SQLite store sees the writer's
// changes. While the database does not answer nothing is reported; afterwards
// everything that was missed is.
//
// On PostgreSQL a Watch has its own connection, which is reopened when it is lost. A
// process needs only one Watch.
func (s *Store) Watch(ctx context.Context, changed func(topic string, generation int64)) error {
	if s.read == nil {
		return ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	wake := s.watchers.add()
	var listening sync.WaitGroup
	defer listening.Wait()
	defer s.watchers.remove(wake)
	defer cancel()
	if s.listen != nil {
		listening.Go(func() { s.listenFor(ctx, wake) })
	}
	tick := time.NewTicker(s.pollEach)
	defer tick.Stop()
	seen := map[string]int64{}
	deaf := false
	for {
		deaf = s.poll(ctx, seen, deaf, changed)
		select {
		case <-ctx.Done():
			return nil
		case <-s.writer.closing:
			return nil
		case <-wake:
		case <-tick.C:
		}
	}
}

// poll reports every generation that differs from the one seen before. It returns
// whether it failed. A failure is logged when it begins and when it ends.
func (s *Store) poll(ctx context.Context, seen map[string]int64, deaf bool, changed func(string, int64)) bool {
	reading, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	now, err := s.Generations(reading)
	switch {
	case err != nil && (ctx.Err() != nil || s.writer.isClosed()):
		return deaf
	case err != nil:
		if !deaf {
			s.log.Error("changes of the store cannot be seen", slog.Any("error", err))
		}
		return true
	case deaf:
		s.log.Info("changes of the store are seen again", slog.String("store", s.path))
	}
	for _, topic := range slices.Sorted(maps.Keys(now)) {
		// Lower ones count too: a restored backup has those.
		if now[topic] != seen[topic] {
			seen[topic] = now[topic]
			changed(topic, now[topic])
		}
	}
	return false
}

// watchers are the wake-up channels of the running Watch calls.
type watchers struct {
	mu  sync.Mutex
	all map[chan struct{}]struct{}
}

func (w *watchers) add() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[chan struct{}]struct{}{}
	}
	wake := make(chan struct{}, 1)
	w.all[wake] = struct{}{}
	return wake
}

func (w *watchers) remove(wake chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, wake)
}

// signal wakes every Watch.
func (w *watchers) signal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wake := range w.all {
		wakeOne(wake)
	}
}

// wakeOne sends to wake without blocking. One token is enough, because its reader looks
// at everything.
func wakeOne(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// listenFor turns notifications of the server into wake-ups until ctx ends. It reopens
// a lost connection; meanwhile the poll sees changes.
func (s *Store) listenFor(ctx context.Context, wake chan struct{}) {
	again := backoff.Backoff{Base: listenAgainMin, Max: listenAgainMax}
	for ctx.Err() == nil {
		listened, err := s.listenOnce(ctx, wake)
		if ctx.Err() != nil {
			return
		}
		if listened {
			again.Reset()
		}
		pause := again.Next()
		s.log.Debug("the store does not notify of changes; they are seen by asking",
			slog.Any("error", err), slog.Duration("again_in", pause))
		_ = backoff.Sleep(ctx, pause) // the loop ends with the context
	}
}

// listenOnce listens on one connection until that breaks.
func (s *Store) listenOnce(ctx context.Context, wake chan struct{}) (listened bool, err error) {
	connecting, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	conn, err := s.listen(connecting)
	if err != nil {
		return false, err
	}
	defer closeListener(conn)
	if _, err := conn.Exec(connecting, "LISTEN "+channel); err != nil {
		return false, err
	}
	for {
		// The first time for what was missed, then for each notification.
		wakeOne(wake)
		if err := s.awaitNotification(ctx, conn); err != nil {
			return true, err
		}
	}
}

// awaitNotification waits for a notification and probes the connection meanwhile,
// because a broken connection may stay silent for ever.
func (s *Store) awaitNotification(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, probeEvery)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if err == nil || ctx.Err() != nil || waiting.Err() == nil {
			return err
		}
		probing, cancel := context.WithTimeout(ctx, pollTimeout)
		err = conn.Ping(probing)
		cancel()
		if err != nil {
			return err
		}
	}
}

// closeListener closes conn with a timeout, because its server may be gone.
func closeListener(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
