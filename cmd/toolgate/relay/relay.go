package relay

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Relay connects the one client of a `toolgate stdio` to whichever gateway serves it: its
// own or another process's. When that gateway goes away, the client stays, and the Relay
// repeats to the next gateway what the client had told the last; see state.go. At most
// one Serve runs at a time.
type Relay struct {
	in    io.Reader
	out   io.Writer
	limit int // maximum bytes of a line of the client

	begin sync.Once
	lines chan []byte   // lines of the client; closed at the end of its input
	done  chan struct{} // closed by Close
	over  atomic.Bool   // the client's input has ended

	brief int // consecutive streams that ended soon after they began

	writing sync.Mutex // guards writing to the client, one line at a time

	state
}

// New returns a relay that reads its client's lines from in and writes to out. depth is
// the maximum nesting of a message.
func New(in io.Reader, out io.Writer, limit, depth int) *Relay {
	return &Relay{
		in: in, out: out, limit: limit, lines: make(chan []byte), done: make(chan struct{}),
		state: newState(mcp.Limits{Depth: depth}),
	}
}

// Over tells whether the client's input has ended.
func (r *Relay) Over() bool { return r.over.Load() }

// Close ends what still waits to hand over a line. A blocked read ends with the process.
func (r *Relay) Close() { close(r.done) }

// ErrGatewayGone tells that a gateway has gone away before its client.
var ErrGatewayGone = errors.New("the gateway is gone")

const (
	// briefTime is the lifetime below which a stream counts as brief.
	briefTime = time.Second
	// mostBrief is how many streams in a row may be brief.
	mostBrief = 10
	// lastLines is how long a stream may still deliver lines after a write to it has
	// failed, or after the command was told to end.
	lastLines = time.Second
)

// Serve carries lines between the client and one gateway. It returns nil when the client
// has ended and has all its answers, the context's error when the context ends, and
// [ErrGatewayGone] when the gateway goes away. By then everything in flight is answered
// or kept for the next gateway.
func (r *Relay) Serve(ctx context.Context, stream io.ReadWriteCloser) error {
	r.begin.Do(func() { go r.read() }) // ends with the input, or with close
	defer stream.Close()
	ended := make(chan error, 1)
	go func() { ended <- r.fromGateway(stream) }() // ends with the stream, which is closed below
	began := time.Now()
	err := r.resume(stream)
	lines := r.lines
	for err == nil {
		select {
		case line, ok := <-lines:
			if ok {
				err = r.send(stream, line)
				continue
			}
			lines = nil
			if half, ok := stream.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		case err := <-ended:
			return r.after(err, time.Since(began))
		case <-ctx.Done():
			stream.Close()
			err = context.Cause(ctx)
		}
	}
	// Whatever the gateway sent before is still delivered.
	timer := time.AfterFunc(lastLines, func() { stream.Close() })
	defer timer.Stop()
	select {
	case gone := <-ended:
		if ctx.Err() == nil {
			return r.after(gone, time.Since(began))
		}
	case <-time.After(2 * lastLines): // the client does not read
	}
	if ctx.Err() == nil || errors.Is(err, ErrGatewayGone) {
		return r.after(nil, time.Since(began))
	}
	return err
}

// after decides what the end of a stream means.
func (r *Relay) after(err error, lived time.Duration) error {
	if err != nil {
		return err
	}
	lost := r.lost(r.over.Load())
	if err := r.write(lost...); err != nil {
		return err
	}
	if r.over.Load() {
		if len(lost) > 0 {
			return failure.Newf(failure.Unreachable, "the gateway went away before it had answered everything")
		}
		return nil
	}
	r.brief++
	if lived >= briefTime {
		r.brief = 0
	}
	if r.brief > mostBrief {
		return failure.Newf(failure.Unreachable, "every gateway ends this client's connection at once; look at the gateway's log, then restart this client")
	}
	return ErrGatewayGone
}

// GiveUp answers the requests that no gateway will answer.
func (r *Relay) GiveUp() { _ = r.write(r.lost(true)...) }

// read reads the client's lines until its input ends.
func (r *Relay) read() {
	defer close(r.lines)
	defer r.over.Store(true)
	in := bufio.NewReaderSize(r.in, 64<<10)
	for {
		line, err := readBounded(in, r.limit)
		if errors.Is(err, errLongLine) {
			fault := mcp.Errorf(mcp.CodeInvalidRequest, "Invalid Request: a line of more than %d bytes (limits.body)", r.limit)
			if r.write(mcp.AppendFault(nil, "", fault)) != nil {
				return
			}
			continue
		}
		if len(line) > 0 {
			select {
			case r.lines <- line:
			case <-r.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

var errLongLine = errors.New("line too long")

// readBounded returns the next line without its end, in memory of its own. It reads a
// line beyond the limit to its end and drops it.
func readBounded(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit+1 {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			return nil, cmp.Or(err, errLongLine)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSpace(line), err
	}
}

// send passes a line of the client to the gateway. A line that was certainly not
// delivered completely is kept for the next gateway.
func (r *Relay) send(stream io.Writer, line []byte) error {
	out := r.fromClient(line)
	if out == nil {
		return nil
	}
	if n, err := stream.Write(append(out, '\n')); err != nil {
		if n < len(out) {
			r.keep(line)
		}
		return ErrGatewayGone
	}
	return nil
}

// resume tells a gateway what the client told the previous ones.
func (r *Relay) resume(stream io.Writer) error {
	session, again := r.catchUp()
	for _, line := range session {
		if _, err := stream.Write(append(line, '\n')); err != nil {
			for _, line := range again {
				r.keep(line)
			}
			return ErrGatewayGone
		}
	}
	for i, line := range again {
		if err := r.send(stream, line); err != nil {
			for _, line := range again[i+1:] {
				r.keep(line)
			}
			return err
		}
	}
	return nil
}

// fromGateway passes the gateway's lines to the client; the gateway bounds their sizes.
// It returns nil when the stream ends. A last line without an end is half a message of a
// gateway that died, and is dropped.
func (r *Relay) fromGateway(stream io.Reader) error {
	in := bufio.NewReaderSize(stream, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil //nolint:nilerr // however it ended
		}
		out, err := r.toClient(line[:len(line)-1])
		if err != nil {
			return err
		}
		if err := r.write(out...); err != nil {
			return err
		}
	}
}

// write writes lines to the client. It may overwrite the memory after the end of each
// line.
func (r *Relay) write(lines ...[]byte) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	for _, line := range lines {
		if _, err := r.out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write to the client: %w", err)
		}
	}
	return nil
}
