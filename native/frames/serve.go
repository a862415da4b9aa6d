package frames

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"
)

// Serve answers the questions of all connections to a listener until it is closed. Each
// is answered in a goroutine of its own, whose context ends with the question. An error is
// told to the other side.
func Serve(l net.Listener, key []byte, reply func(ctx context.Context, body []byte) ([]byte, error)) error {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		all.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			_ = conn.SetDeadline(time.Now().Add(proofTime))
			if expect(conn, key[:KeySize/2]) != nil {
				return
			}
			if _, err := conn.Write(key[KeySize/2 : KeySize]); err != nil || conn.SetDeadline(time.Time{}) != nil {
				return
			}
			newAnswerer(conn, reply).run(ctx)
		})
	}
}

// answerer answers the questions of one connection.
type answerer struct {
	conn  net.Conn
	reply func(ctx context.Context, body []byte) ([]byte, error)

	writing sync.Mutex
	out     []byte

	mu   sync.Mutex
	open map[uint64]*open // questions whose answers are being made
}

// open is a question whose answer is being made.
type open struct {
	end      context.CancelFunc
	canceled bool
}

func newAnswerer(conn net.Conn, reply func(context.Context, []byte) ([]byte, error)) *answerer {
	return &answerer{conn: conn, reply: reply, open: make(map[uint64]*open)}
}

// run answers until the connection ends, and returns when no answer runs.
func (a *answerer) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	from := bufio.NewReaderSize(a.conn, 16<<10)
	for {
		f, err := read(from)
		switch {
		case err != nil:
			return
		case f.kind == cancel:
			a.cancel(f.id)
		case f.kind == question:
			own, end := context.WithCancel(ctx)
			if err := a.begin(f.id, end); err != nil {
				end()
				a.send(f.id, nil, err)
				continue
			}
			all.Go(func() {
				body, err := a.reply(own, f.body)
				if a.end(f.id) && ctx.Err() == nil {
					a.send(f.id, body, err)
				}
			})
		default:
			return
		}
	}
}

// begin notes a question. A canceled one counts until its goroutine has ended.
func (a *answerer) begin(id uint64, end context.CancelFunc) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, twice := a.open[id]; twice {
		return errFrame
	}
	if len(a.open) >= maxOpen {
		return ErrTooMany
	}
	a.open[id] = &open{end: end}
	return nil
}

// cancel ends the context of a question.
func (a *answerer) cancel(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.open[id]; q != nil {
		q.canceled = true
		q.end()
	}
}

// end forgets a question, and reports whether somebody waits for its answer.
func (a *answerer) end(id uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[id]
	delete(a.open, id)
	q.end()
	return !q.canceled
}

// send writes an answer, or an error.
func (a *answerer) send(id uint64, body []byte, err error) {
	f := frame{answer, id, body}
	switch {
	case err != nil:
		text := err.Error()
		f.kind, f.body = failure, []byte(text[:min(len(text), MaxBody)])
	case len(body) > MaxBody:
		f.kind, f.body = failure, []byte("the answer is too large")
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	a.out = f.append(a.out[:0])
	if _, err := a.conn.Write(a.out); err != nil {
		a.conn.Close() // its reader ends
	}
	if cap(a.out) > 64<<10 {
		a.out = nil
	}
}
