package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
)

// lastResponsesTimeout is how long a client that has closed its input still gets
// responses.
const lastResponsesTimeout = 5 * time.Second

// ServeStdio serves one client on a pair of streams, in every revision, until the input
// ends, the output fails or ctx ends. It writes only messages to w. The caller closes
// the streams: a blocked read keeps its goroutine, but not ServeStdio.
func (g *Gateway) ServeStdio(ctx context.Context, id *gate.Identity, scope Scope, r io.Reader, w io.Writer) error {
	s, err := g.openSession(id, scope, "stdio", nil)
	if err != nil {
		return err
	}
	defer s.release()
	defer s.end(errSessionEnded)
	stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	defer stop()
	d := newChannel(s, id)

	written := make(chan error, 1)
	go func() { written <- d.writeLines(w) }() // ends with the session
	read := make(chan error, 1)
	go func() { read <- d.readLines(id, r, int(g.opts.Limits.Body)) }() // ends with its input
	select {
	case err = <-read:
		close(d.ended)
		timer := time.AfterFunc(lastResponsesTimeout, func() { s.cancel(errSessionEnded) })
		d.drain()
		timer.Stop()
		s.cancel(errSessionEnded)
		if werr := <-written; err == nil {
			err = werr
		}
	case err = <-written:
		s.cancel(errSessionEnded)
		d.drain()
	}
	return err
}

// readLines receives the lines of the client. All of them are from one identity.
func (d *channel) readLines(id *gate.Identity, r io.Reader, most int) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		claim := d.s.g.opts.Messages.Claim(d.s.principal)
		line, err := readLine(in, most, claim)
		switch {
		case errors.Is(err, errLineTooLong):
			claim.Release()
			d.put(mcp.AppendFault(nil, "", mcp.Errorf(mcp.CodeInvalidRequest, "Invalid Request: a line of more than %d bytes (limits.body)", most)))
			continue
		case errors.Is(err, limit.ErrFull), errors.Is(err, limit.ErrScarce):
			claim.Release()
			no := noRoom(err)
			d.put(mcp.AppendFault(nil, "", &mcp.Error{Code: no.Code, Message: no.Text, Data: no.Data()}))
			continue
		case len(line) > 0:
			d.receive(id, line, claim)
		default:
			claim.Release()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the client's messages: %w", err)
		}
		select {
		case <-d.s.ctx.Done():
			return nil
		default:
		}
	}
}

var errLineTooLong = errors.New("line too long")

// readLine returns the next line without its end, in memory of its own that the claim
// counts. It skips a line that is too long, or for which there is no memory.
func readLine(in *bufio.Reader, most int, claim *limit.Claim) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > most+1 {
			return nil, dropLine(in, err, errLineTooLong)
		}
		var full error
		if line, full = claim.Append(line, part); full != nil {
			claim.Release() // before it waits for the rest
			return nil, dropLine(in, err, full)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return trimLine(line), err
	}
}

// dropLine skips the rest of a line of which a part was read with err. It returns why,
// or the error that ended the input.
func dropLine(in *bufio.Reader, err, why error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	if err != nil {
		return err
	}
	return why
}

func trimLine(line []byte) []byte {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r' || line[len(line)-1] == ' ' || line[len(line)-1] == '\t') {
		line = line[:len(line)-1]
	}
	for len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
		line = line[1:]
	}
	return line
}

// writeLines writes the queued messages, one per line, until the session has ended and
// the queue is empty.
func (d *channel) writeLines(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var line []byte
	write := func(raw []byte) error {
		if cap(line) > 1<<20 {
			line = nil
		}
		line = append(mcp.AppendLine(line[:0], raw), '\n')
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("write to the client: %w", err)
		}
		if !d.box.Empty() {
			return nil // more messages follow
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("write to the client: %w", err)
		}
		return nil
	}
	for {
		select {
		case <-d.box.Waiting():
			if raw := d.box.Take(); raw != nil {
				if err := write(raw); err != nil {
					return err
				}
			}
		case <-d.s.ctx.Done():
			d.waitLastResponses()
			for raw := d.box.Take(); raw != nil; raw = d.box.Take() {
				if err := write(raw); err != nil {
					return err
				}
			}
			return out.Flush()
		}
	}
}

// waitLastResponses waits a moment for the requests that end with the session, so that
// their last messages are written.
func (d *channel) waitLastResponses() {
	said := make(chan struct{})
	go func() { // ends before ServeStdio, which waits for the same requests
		d.drain()
		close(said)
	}()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-said:
	case <-timer.C:
	}
}
