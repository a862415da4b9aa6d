package raw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// maxSamples bounds the latencies that are kept of one run.
const maxSamples = 1 << 20

// Load calls over some connections.
type Load struct {
	poller *poller
	lines  map[int]*line
	idle   []*line
}

// line is a connection and who calls by it.
type line struct {
	*conn
	caller Caller
	begun  time.Time // of its call, as planned
	busy   bool
}

// NewLoad connects each caller to an address of this machine.
func NewLoad(ctx context.Context, address string, callers ...Caller) (*Load, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	l := &Load{poller: p, lines: make(map[int]*line, len(callers))}
	for _, caller := range callers {
		c, err := dial(ctx, address)
		if err == nil {
			l.lines[c.fd] = &line{conn: c, caller: caller}
			l.idle = append(l.idle, l.lines[c.fd])
			err = p.add(c.fd)
		}
		if err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// Close ends the connections.
func (l *Load) Close() {
	for fd := range l.lines {
		_ = unix.Close(fd)
	}
	l.poller.close()
}

// answerTime bounds the wait for the last answers of a run.
const answerTime = 20 * time.Second

// Run calls. The first answer that is wrong ends it.
func (l *Load) Run(ctx context.Context, r Run) (f Figures, err error) {
	began := time.Now()
	begun, samples := 0, make([]time.Duration, 0, min(r.Count, maxSamples))
	for f.Done < r.Count {
		now := time.Now()
		over := now.Sub(began) >= r.Most
		if over && f.Done == begun {
			break
		}
		if now.Sub(began) > r.Most+answerTime || ctx.Err() != nil {
			return f, errors.Join(fmt.Errorf("%d of %d calls have no answer", begun-f.Done, begun), context.Cause(ctx))
		}
		wait := stopStep
		for !over && begun < r.Count && len(l.idle) > 0 {
			due := now
			if r.Rate > 0 {
				due = began.Add(time.Duration(float64(begun) / r.Rate * float64(time.Second)))
			}
			if ahead := due.Sub(now); ahead > 0 {
				wait = min(wait, ahead)
				break
			}
			if err := l.begin(due); err != nil {
				return f, err
			}
			begun++
		}
		ready, err := l.poller.wait(wait)
		if err != nil {
			return f, err
		}
		for i := range ready {
			line := l.lines[int(ready[i].Fd)]
			answered, err := l.advance(line)
			if err != nil {
				return f, fmt.Errorf("after %d answers: %w", f.Done, err)
			}
			if answered {
				f.Done++
				if len(samples) < maxSamples {
					samples = append(samples, time.Since(line.begun))
				}
			}
		}
	}
	f.Took = time.Since(began)
	if len(samples) > 0 {
		slices.Sort(samples)
		f.P50, f.P99 = samples[len(samples)/2], samples[len(samples)*99/100]
	}
	return f, nil
}

// begin sends the next call of a connection that has none.
func (l *Load) begin(due time.Time) error {
	c := l.idle[len(l.idle)-1]
	l.idle = l.idle[:len(l.idle)-1]
	c.begun, c.busy = due, true
	c.out = c.caller.Request(c.out)
	return l.poller.flush(c.conn)
}

// advance writes and reads what there is, and reports whether the call was answered.
func (l *Load) advance(c *line) (bool, error) {
	if len(c.out) > 0 {
		if err := l.poller.flush(c.conn); err != nil {
			return false, err
		}
	}
	ended := c.read()
	if ended != nil && !errors.Is(ended, io.EOF) {
		return false, ended
	}
	response, size, err := parse(c.in)
	switch {
	case err != nil:
		return false, err
	case size == 0 && ended == nil:
		return false, nil
	case size == 0:
		return false, errors.New("the connection has ended before the answer")
	case !c.busy || size < len(c.in):
		return false, fmt.Errorf("an answer that nobody waits for: %.200s", c.in)
	}
	if err := c.caller.Check(&response); err != nil {
		return false, err
	}
	c.in, c.busy = c.in[:0], false
	if ended != nil {
		return false, errors.New("the connection has ended after an answer")
	}
	l.idle = append(l.idle, c)
	return true, nil
}
