package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/seal"
)

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
	if err1 != nil || err2 != nil || stream == nil || stream.Rights() != id.Rights() {
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
