package lineclient

import (
	"errors"
	"io"
)

// Pipe is one end of an in-memory stream.
type Pipe struct {
	*io.PipeReader
	*io.PipeWriter
}

// NewPipe returns the two ends of an in-memory stream.
func NewPipe() (a, b *Pipe) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return &Pipe{r1, w2}, &Pipe{r2, w1}
}

// CloseWrite ends the writing side, so that the other end sees the end of input.
func (p *Pipe) CloseWrite() error { return p.PipeWriter.Close() }

// Close ends both directions.
func (p *Pipe) Close() error { return errors.Join(p.PipeReader.Close(), p.PipeWriter.Close()) }
