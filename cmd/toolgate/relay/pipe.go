package relay

import (
	"errors"
	"io"
)

// pipe is one end of an in-memory stream.
type pipe struct {
	*io.PipeReader
	*io.PipeWriter
}

// NewPipe returns the two ends of an in-memory stream.
func NewPipe() (a, b *pipe) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return &pipe{r1, w2}, &pipe{r2, w1}
}

// CloseWrite ends the writing side, so that the other end sees the end of input.
func (p *pipe) CloseWrite() error { return p.PipeWriter.Close() }

// Close ends both directions.
func (p *pipe) Close() error { return errors.Join(p.PipeReader.Close(), p.PipeWriter.Close()) }
