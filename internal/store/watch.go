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
	// pollEvery is the most that a lost notification can cost.
	pollEvery = time.Second
	// pollTimeout bounds one poll.
	pollTimeout = 5 * time.Second
	// The listening connection is made again after a pause that doubles from
	// the first to the last of these.
	listenAgainMin = 100 * time.Millisecond
	listenAgainMax = 5 * time.Second
	// probeEvery is how often a silent listening connection is asked whether
	// it still lives.
	probeEvery = 15 * time.Second
)

// Watch calls changed for every topic whose generation has risen, until ctx
// ends; then it returns nil. It begins with the generations that there are,
// so that nothing is missed between reading a topic and watching it. Calls
// come from one goroutine, one after the other, sorted by topic; changes that
// follow each other quickly may be reported as one, by the last generation.
//
// A change of this process is reported at once. One of another process is
// reported as soon as PostgreSQL notifies of it, and after 1 s at the latest:
// the generations are read that often whatever happens, which is also how a
// read-only store on SQLite sees the writer's changes. While the database
// does not answer nothing is reported, and when it answers again everything
// that was missed.
//
// On PostgreSQL a Watch has one connection of its own, which is made again
// when it is lost. A process needs one Watch.
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

// poll reports every generation that is not the one seen before. It returns
// whether it failed, which is logged when it begins and when it ends.
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
		// Not only a higher one: a restored backup has lower ones.
		if now[topic] != seen[topic] {
			seen[topic] = now[topic]
			changed(topic, now[topic])
		}
	}
	return false
}

// watchers are the wake-up channels of those who watch.
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

// signal wakes everyone who watches.
func (w *watchers) signal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wake := range w.all {
		nudge(wake)
	}
}

// nudge leaves a token in wake unless one is there: the reader of one token
// looks at everything.
func nudge(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// listenFor turns notifications of the server into wake-ups until ctx ends. A
// connection that is lost is made again; in between the poll sees changes.
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
	defer hangUp(conn)
	if _, err := conn.Exec(connecting, "LISTEN "+channel); err != nil {
		return false, err
	}
	for {
		// The first time for what was missed, then for what was heard.
		nudge(wake)
		if err := s.awaitNotification(ctx, conn); err != nil {
			return true, err
		}
	}
}

// awaitNotification waits for a notification and makes sure meanwhile that
// the connection lives: one whose other end is gone stays silent for ever.
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

// hangUp closes conn, within a bound: its server may be gone.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
