package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/seal"
)

// replays keep the events of legacy answers that became streams, so that a
// client whose connection broke can come back for the rest (2025-11-25
// basic/transports, Resumability and Redelivery). They are bounded in all, not
// per session: the oldest stream goes first.
type replays struct {
	most int           // bytes of all streams
	keep time.Duration // after the answer is complete

	mu      sync.Mutex
	bytes   int
	next    int64
	streams []*replayed // oldest first
}

// replayed is one answer. Its events are numbered from 1.
type replayed struct {
	in      *replays
	session string
	rights  string // of the request that is answered: it is for no other
	number  int64

	mu     sync.Mutex
	events [][]byte
	count  int           // of all events, kept or not
	size   int           // bytes that are kept
	gone   bool          // thrown out
	done   time.Time     // when the answer was complete; zero before
	grown  chan struct{} // closed and replaced when something is added
}

var errNoReplay = errors.New("the event is not known any more")

func (r *replays) open(session, rights string) *replayed {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	s := &replayed{in: r, session: session, rights: rights, number: r.next, grown: make(chan struct{})}
	r.streams = append(r.streams, s)
	return s
}

// add keeps an event and returns its number. last says that it completes the
// answer.
func (s *replayed) add(event []byte, last bool) int {
	kept := 0
	s.mu.Lock()
	if !s.gone {
		s.events, s.size, kept = append(s.events, event), s.size+len(event), len(event)
	}
	s.count++
	if last {
		s.done = time.Now()
	}
	n := s.count
	s.tell()
	s.mu.Unlock()
	s.in.account(kept)
	return n
}

// end completes an answer that has no last event.
func (s *replayed) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = time.Now()
	s.tell()
}

// tell wakes whoever waits for the stream to grow or to end; mu is held.
func (s *replayed) tell() {
	close(s.grown)
	s.grown = make(chan struct{})
}

// account adds to what is kept and throws out the oldest streams beyond it.
func (r *replays) account(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += n
	for r.bytes > r.most && len(r.streams) > 0 {
		r.bytes -= r.streams[0].drop()
		r.streams = r.streams[1:]
	}
}

// drop throws a stream's events out and returns how many bytes they had.
func (s *replayed) drop() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.size
	s.gone, s.events, s.size = true, nil, 0
	s.tell()
	return n
}

// sweep forgets what was complete for a while.
func (r *replays) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams = slices.DeleteFunc(r.streams, func(s *replayed) bool {
		s.mu.Lock()
		old := !s.done.IsZero() && now.Sub(s.done) > r.keep
		s.mu.Unlock()
		if old {
			r.bytes -= s.drop()
		}
		return old
	})
}

// forget drops the streams of a session that has ended.
func (r *replays) forget(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams = slices.DeleteFunc(r.streams, func(s *replayed) bool {
		if s.session == session {
			r.bytes -= s.drop()
		}
		return s.session == session
	})
}

// find returns a stream of a session.
func (r *replays) find(session string, number int64) *replayed {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.streams {
		if s.number == number && s.session == session {
			return s
		}
	}
	return nil
}

// after returns the events behind the n-th, whether more may follow, and what
// tells that something has.
func (s *replayed) after(n int) (events [][]byte, more bool, grown <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || n > len(s.events) {
		return nil, false, nil, errNoReplay
	}
	return s.events[n:], s.done.IsZero(), s.grown, nil
}

// eventID names an event of a session's answer to its client alone.
func (hf *httpFront) eventID(s *Session, stream int64, event int) string {
	id, err := hf.g.opts.Keys.Seal(seal.Event, eventContext(s), fmt.Appendf(nil, "%d.%d", stream, event))
	if err != nil {
		return "" // without an id the stream cannot be resumed, and works otherwise
	}
	return id
}

func eventContext(s *Session) string { return s.principal + "\x00" + s.id }

// resume serves a GET with Last-Event-ID: the rest of an answer, from its kept
// events and then as it grows. It is for who has the rights of the request.
func (hf *httpFront) resume(w http.ResponseWriter, r *http.Request, s *Session, id *gate.Identity, last string) error {
	text, err := hf.g.opts.Keys.Open(seal.Event, eventContext(s), last)
	if err != nil {
		hf.g.log.Info("an event id is refused that was not made for this session", "principal", s.principal, "session", s.auditID)
		return errNoReplay
	}
	left, right, _ := strings.Cut(string(text), ".")
	number, err1 := strconv.ParseInt(left, 10, 64)
	n, err2 := strconv.Atoi(right)
	stream := hf.g.replays.find(s.id, number)
	if err1 != nil || err2 != nil || stream == nil || stream.rights != id.Rights() {
		return errNoReplay
	}
	if _, _, _, err := stream.after(n); err != nil {
		return err
	}
	box := newMailbox(1, 0)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.ctx, func() { cancel(errSessionEnded) })
	defer stop()
	var fed sync.WaitGroup
	fed.Go(func() {
		defer cancel(nil)
		for {
			events, more, grown, err := stream.after(n)
			if err != nil {
				return
			}
			for _, e := range events {
				n++
				if box.put(ctx, hf.identified(s, number, n, e)) != nil {
					return
				}
			}
			if len(events) > 0 {
				continue
			}
			if !more {
				return
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	})
	defer fed.Wait()
	defer cancel(nil)
	hf.stream(ctx, w, box)
	return nil
}

// identified returns an event of a stream with its id, complete. Its message is
// one line already; nil is the event that opens a stream.
func (hf *httpFront) identified(s *Session, stream int64, n int, message []byte) []byte {
	out := append([]byte("id: "), hf.eventID(s, stream, n)...)
	if message == nil {
		return append(out, "\ndata: \n\n"...)
	}
	out = append(out, '\n')
	out = append(out, eventStart...)
	out = append(out, message...)
	return append(out, eventEnd...)
}
