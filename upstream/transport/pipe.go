package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
)

// pipe is a link over a stream of lines in each direction, one message per line
// (2026-07-28 transports/stdio; all revisions have this framing). A reader and a writer
// run until their streams end; Close waits for both.
type pipe struct {
	*Mux
	limits Limits
	log    *slog.Logger
	in     io.Reader
	to     io.Writer
	// lastWords returns the cause to report when a stream fails. It may wait.
	lastWords func(writing bool, err error) error
	// hangUp ends both streams, within the context.
	hangUp func(ctx context.Context)

	out  chan []byte // to write; a message waits with its sender
	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup

	stray      atomic.Int64           // lines so far that are no messages
	firstStray atomic.Pointer[string] // safe to print
	onStray    func(line string)      // told of each line that is no message; nil for nobody
}

// newPipe returns a link that reads from in and writes to the other stream. The caller
// sets hangUp, and lastWords if necessary, before start.
func newPipe(o *Options, in io.Reader, to io.Writer, inbound func(mcp.Message)) *pipe {
	p := &pipe{
		Mux: NewMux(o.Log, o.Limits, inbound), limits: o.Limits, log: o.Log, in: in, to: to,
		lastWords: hungUp,
		out:       make(chan []byte), stop: make(chan struct{}),
	}
	p.Mux.Several = o.Several
	return p
}

var errHungUp = errors.New("the server closed the connection")

// hungUp is the default for lastWords.
func hungUp(_ bool, err error) error {
	if errors.Is(err, io.EOF) {
		return errHungUp
	}
	return err
}

// start starts the reader and the writer.
func (p *pipe) start() {
	p.wg.Go(p.read)
	p.wg.Go(p.write)
}

// read delivers lines until the stream ends.
func (p *pipe) read() {
	lines := newLineReader(p.in, p.limits.Line, p.strayLine)
	lines.onTooLong = func(head []byte) {
		p.log.Warn("the server wrote a line beyond the limit", "limit", p.limits.Line)
		if id := answerIn(head); !id.Absent() {
			p.Mux.failRequest(id, ErrTooLarge)
		}
	}
	parse := mcp.Limits{Depth: p.limits.Depth, LoneSurrogates: true}
	for {
		line, err := lines.next()
		if err != nil {
			p.Mux.Fail(p.lastWords(false, err))
			return
		}
		msg, err := mcp.Parse(line, parse)
		if err != nil {
			p.log.Debug("the server sent an invalid message", "err", err)
			if !p.Mux.DeliverInvalid(msg, err) {
				lines.noise.Add(1)
			}
			continue
		}
		p.Mux.Deliver(msg)
	}
}

// strayLine notes a line that is no message, of which head is the beginning.
func (p *pipe) strayLine(head []byte) {
	p.log.Debug("the server wrote a line that is not a message", "line", string(head))
	line := child.Printable(head, len(head) == skipHeadBytes)
	p.firstStray.CompareAndSwap(nil, &line)
	p.stray.Add(1)
	if p.onStray != nil {
		p.onStray(line)
	}
}

// Stray implements [Process].
func (p *pipe) Stray() (lines int64, first string) {
	if line := p.firstStray.Load(); line != nil {
		return p.stray.Load(), *line
	}
	return 0, ""
}

// write writes one line after the other until the link closes.
func (p *pipe) write() {
	for {
		select {
		case line := <-p.out:
			if _, err := p.to.Write(line); err != nil {
				p.Mux.Fail(p.lastWords(true, err))
				return
			}
		case <-p.stop:
			return
		case <-p.Mux.lost:
			return
		}
	}
}

// queue passes a message to the writer, which takes it when the server has read the
// earlier ones. It waits as long as the context lasts.
func (p *pipe) queue(ctx context.Context, raw []byte) error {
	line := append(mcp.AppendLine(make([]byte, 0, len(raw)+1), raw), '\n')
	select {
	case p.out <- line:
		return nil
	case <-ctx.Done():
		return &undelivered{context.Cause(ctx)}
	case <-p.Mux.lost:
		return &undelivered{p.Mux.Cause()}
	case <-p.stop:
		return &undelivered{ErrClosed}
	}
}

// RoundTrip implements [Link].
func (p *pipe) RoundTrip(ctx context.Context, req *Request) (mcp.Message, error) {
	return p.Mux.RoundTrip(ctx, req, func(raw []byte) error { return p.queue(ctx, raw) })
}

// Send implements [Link].
func (p *pipe) Send(ctx context.Context, raw []byte, _ []Field) error {
	return p.queue(ctx, raw)
}

// Negotiated implements [Link].
func (*pipe) Negotiated(mcp.Version) {}

// Ready implements [Link].
func (*pipe) Ready() {}

// Close hangs up and waits for everything that the link started.
func (p *pipe) Close(ctx context.Context) {
	p.once.Do(func() { close(p.stop) })
	p.hangUp(ctx)
	p.Mux.Fail(ErrClosed)
	p.wg.Wait()
}
