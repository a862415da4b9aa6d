//go:build !unix

package idleread

func (r *Reader) init() {}

func (r *Reader) next() (*Buffer, int, error) { return r.withBuffer() }
