package cluster

import (
	"bytes"
	"io"

	"github.com/toolgate/toolgate/internal/mcp"
)

// maxHeld bounds what is held back of an event that is not whole yet, in bytes. A larger
// event is passed on as it comes.
const maxHeld = 64 << 10

// events passes the events of a stream on, so that one may be added where the stream breaks
// off: not into the middle of another, and not after the answer.
type events struct {
	to      io.Writer
	answers [][]byte // how the line begins that has the answer of the request; nil for none
	most    int      // bytes of a line that tell what it is

	held  []byte // what has come of an event, as far as it was not passed on
	line  []byte // the beginning of the line that comes
	final bool   // the event that comes has the answer
	begun bool   // a part of the event that comes was passed on

	answered bool // the answer was passed on
}

// newEvents passes events on to a writer. id is that of the request; empty for none.
func newEvents(to io.Writer, id mcp.ID) *events {
	e := &events{to: to, most: 2} // enough to tell that a line is empty
	if id != "" {
		for _, member := range []string{"result", "error"} {
			begins := []byte(`data: {"jsonrpc":"2.0","id":` + string(id) + `,"` + member + `":`)
			e.answers, e.most = append(e.answers, begins), max(e.most, len(begins))
		}
	}
	return e
}

// Write implements io.Writer.
func (e *events) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			e.keep(p)
			e.held = append(e.held, p...)
			break
		}
		e.keep(p[:i])
		e.held = append(e.held, p[:i+1]...)
		p = p[i+1:]
		if err := e.endLine(); err != nil {
			return 0, err
		}
	}
	if len(e.held) <= maxHeld {
		return n, nil
	}
	e.begun = true
	return n, e.pass()
}

// keep notes as much of a line as tells what it is.
func (e *events) keep(part []byte) {
	e.line = append(e.line, part[:min(len(part), e.most-len(e.line))]...)
}

// endLine takes note of a line that is whole. An empty one ends the event.
func (e *events) endLine() error {
	line := bytes.TrimSuffix(e.line, []byte{'\r'})
	e.line = e.line[:0]
	if len(line) > 0 {
		for _, a := range e.answers {
			e.final = e.final || bytes.HasPrefix(line, a)
		}
		return nil
	}
	if err := e.pass(); err != nil {
		return err
	}
	e.answered, e.final, e.begun = e.answered || e.final, false, false
	return nil
}

// pass passes on what is held.
func (e *events) pass() error {
	_, err := e.to.Write(e.held)
	e.held = e.held[:0]
	return err
}
