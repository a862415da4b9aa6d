package child

import "sync"

// Output keeps a bounded part of a program's output. It is an io.Writer that never
// fails, so that the program can go on. The zero value keeps nothing. All methods may
// be called concurrently.
type Output struct {
	// Max is how many bytes are kept. It must not change after the first write.
	Max int
	// Ends keeps half of Max from the end. Otherwise all of it is from the beginning.
	Ends bool

	mu         sync.Mutex
	head, tail []byte
	lost       int64
}

// Write adds p. It always returns len(p), nil.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	written := len(p)
	first, last := o.bounds()
	take := min(max(0, first-len(o.head)), len(p))
	o.head, p = append(o.head, p[:take]...), p[take:]
	if drop := len(p) - last; drop > 0 {
		o.lost += int64(drop)
		p = p[drop:]
	}
	o.tail = append(o.tail, p...)
	if len(o.tail) > 2*last {
		o.trim(last) // rarely, so that bytes are not moved by each write
	}
	return written, nil
}

// Parts returns the kept beginning and end, and how many bytes between or after them
// were dropped. The slices must not be modified, and are valid until the next Write.
func (o *Output) Parts() (head, tail []byte, lost int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, last := o.bounds()
	o.trim(last)
	return o.head, o.tail, o.lost
}

// bounds returns how many bytes are kept of the beginning and of the end.
func (o *Output) bounds() (first, last int) {
	if !o.Ends {
		return o.Max, 0
	}
	return o.Max / 2, o.Max - o.Max/2
}

// trim cuts the end to last bytes; mu is held.
func (o *Output) trim(last int) {
	if drop := len(o.tail) - last; drop > 0 {
		o.lost += int64(drop)
		o.tail = append(o.tail[:0], o.tail[drop:]...)
	}
}
