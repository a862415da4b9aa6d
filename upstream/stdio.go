package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
)

// stopGrace is how long a process gets after its stdin was closed, and again
// after it was told to terminate.
const stopGrace = 2 * time.Second

// exitWait bounds the wait for the exit of a process whose stdout has ended or
// whose stdin is closed: it may live on. lastWordsWait bounds what follows its
// exit, until its group is dead and its stderr was read.
const (
	exitWait      = 2 * time.Second
	lastWordsWait = child.EndWait
)

// stdioDialer starts the process of a server (2026-07-28 transports/stdio; the
// framing is the same in all revisions).
type stdioDialer struct {
	spec    Spec
	several bool // principals share the process
	log     *slog.Logger
}

// stdioLink is a running process.
type stdioLink struct {
	mux    *mux
	proc   *child.Process
	log    *slog.Logger
	limits Limits
	out    chan []byte // to write; a message waits with its sender
	stop   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

func (d *stdioDialer) dial(ctx context.Context, inbound func(mcp.Message)) (link, error) {
	// The process lives until the link is closed, not as long as its start.
	proc, err := child.Start(context.WithoutCancel(ctx), child.Spec{
		Command: d.spec.Command, Args: d.spec.Args, Dir: d.spec.Dir, Env: d.spec.Env,
	})
	if err != nil {
		return nil, err
	}
	l := &stdioLink{
		mux: newMux(d.log, d.spec.Limits, inbound), proc: proc, log: d.log, limits: d.spec.Limits,
		out: make(chan []byte), stop: make(chan struct{}),
	}
	l.mux.several = d.several
	l.wg.Go(l.read)
	l.wg.Go(l.write)
	return l, nil
}

// tail is what the process has written to its standard error.
func (l *stdioLink) tail() Tail {
	lines, ended := l.proc.Tail()
	return Tail{Process: l.proc.Began().UnixNano(), Ended: ended, Lines: lines}
}

// read delivers the lines of the process until its stdout ends.
func (l *stdioLink) read() {
	lines := newLineReader(l.proc.Stdout(), l.limits.Line, func(line []byte) {
		l.log.Debug("the server wrote something else than a message to its stdout", "line", string(line))
	})
	lines.onTooLong = func(head []byte) {
		l.log.Warn("the server wrote a line beyond the limit", "limit", l.limits.Line)
		if id := answerIn(head); !id.Absent() {
			l.mux.spoilID(id, errTooLarge)
		}
	}
	parse := mcp.Limits{Depth: l.limits.Depth, LoneSurrogates: true}
	for {
		line, err := lines.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errStdoutEnded
			}
			l.mux.fail(l.ending(err))
			return
		}
		msg, err := mcp.Parse(line, parse)
		if err != nil {
			l.log.Debug("the server sent an invalid message", "err", err)
			if !l.mux.spoil(msg, err) {
				lines.noise.Add(1)
			}
			continue
		}
		l.mux.deliver(msg)
	}
}

// errStdoutEnded is the cause where a process closes its stdout and lives on.
var errStdoutEnded = errors.New("the process closed its stdout")

// ending returns why the link to the process is lost, one of whose pipes has
// failed with err. An exit shows at several pipes, in any order: what is told
// is the exit with the last words on stderr, whichever came first.
func (l *stdioLink) ending(err error) error {
	if !l.within(l.proc.Exited(), exitWait) {
		return err
	}
	if !l.within(l.proc.Done(), lastWordsWait) {
		return fmt.Errorf("the process ended, and something of it lives on: %w", err)
	}
	return fmt.Errorf("the process ended: %w", l.proc.Err())
}

// within waits for c, but no longer than d.
func (l *stdioLink) within(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// write writes one line after the other until the link closes.
func (l *stdioLink) write() {
	for {
		select {
		case line := <-l.out:
			if _, err := l.proc.Stdin().Write(line); err != nil {
				l.mux.fail(l.ending(fmt.Errorf("write to the process: %w", err)))
				return
			}
		case <-l.stop:
			return
		case <-l.mux.lost:
			return
		}
	}
}

// queue hands a message to the writer, which takes it once the process has read
// what was written before. It waits for that as long as the context lasts.
func (l *stdioLink) queue(ctx context.Context, raw []byte) error {
	line := append(mcp.AppendLine(make([]byte, 0, len(raw)+1), raw), '\n')
	select {
	case l.out <- line:
		return nil
	case <-ctx.Done():
		return &undelivered{context.Cause(ctx)}
	case <-l.mux.lost:
		return &undelivered{l.mux.cause()}
	case <-l.stop:
		return &undelivered{errClosed}
	}
}

func (l *stdioLink) roundTrip(ctx context.Context, req *outgoing) (mcp.Message, error) {
	return l.mux.roundTrip(ctx, req, func(raw []byte) error { return l.queue(ctx, raw) })
}

func (l *stdioLink) send(ctx context.Context, raw []byte, _ http.Header) error {
	return l.queue(ctx, raw)
}

func (l *stdioLink) negotiated(mcp.Version) {}

func (l *stdioLink) done() <-chan struct{} { return l.mux.lost }
func (l *stdioLink) cause() error          { return l.mux.cause() }
func (l *stdioLink) fail(err error)        { l.mux.fail(err) }

// close ends the process and waits for everything that dial started.
func (l *stdioLink) close(ctx context.Context) {
	l.once.Do(func() { close(l.stop) })
	if err := l.proc.Stop(ctx, stopGrace); err != nil {
		l.log.Error("the process does not end", "err", err)
	}
	l.mux.fail(errClosed)
	l.wg.Wait()
}
