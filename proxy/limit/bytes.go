package limit

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Bytes bounds the memory of messages from clients, in total and of one caller. Memory
// counts from its allocation until the message is handled, as far as the message has
// arrived. It is safe for concurrent use. The zero Bytes allows no message larger than
// [Free].
type Bytes struct {
	mu     sync.Mutex
	most   int64
	used   int64
	of     map[string]int64 // by caller
	scarce bool
}

const (
	// Free is the part of each message that is not counted. A connection costs about
	// that much by itself, so the number of connections bounds it.
	Free = 16 << 10
	// Small is the largest message that is accepted while memory is scarce.
	Small = 256 << 10
)

var (
	// ErrFull means that other messages use the memory.
	ErrFull = errors.New("too many bytes of messages are being handled")
	// ErrScarce means that a message is too large while the gateway is short of memory.
	ErrScarce = errors.New("the gateway is short of memory")
	// ErrTooLarge means that a message is larger than any may be.
	ErrTooLarge = errors.New("the message is too large")
)

// NewBytes returns a limit of most bytes in total. One caller may have half of them, so
// that no caller keeps out all others. A single message of largest bytes always fits
// when there is no other.
func NewBytes(most, largest int64) *Bytes {
	return &Bytes{most: max(most, 2*largest), of: make(map[string]int64)}
}

// Scarce sets whether memory is scarce. Messages under way are not affected.
func (b *Bytes) Scarce(is bool) {
	b.mu.Lock()
	b.scarce = is
	b.mu.Unlock()
}

// Used returns how many bytes are counted now.
func (b *Bytes) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Claim is the memory of one message. It is used by one goroutine at a time.
type Claim struct {
	of     *Bytes
	caller string
	held   int64 // bytes counted
}

// Claim begins to count a message of a caller. It reserves nothing yet.
func (b *Bytes) Claim(caller string) *Claim { return &Claim{of: b, caller: caller} }

// grow extends the claim to size bytes. The error is [ErrFull] or [ErrScarce].
func (c *Claim) grow(size int64) error {
	more := size - Free - c.held
	if more <= 0 {
		return nil
	}
	b := c.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.room(c.caller, size, more); err != nil {
		return err
	}
	b.used += more
	b.of[c.caller] += more
	c.held += more
	return nil
}

// Release gives back everything. It may be called more than once.
func (c *Claim) Release() {
	held := c.held
	c.held = 0
	if held == 0 {
		return
	}
	b := c.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= held
	if b.of[c.caller] -= held; b.of[c.caller] == 0 {
		delete(b.of, c.caller)
	}
}

// fits returns an error when a message of the announced size cannot be read, nil where
// it can be tried.
func (c *Claim) fits(size int64) error {
	if size <= firstPart {
		return nil // grow will decide
	}
	b := c.of
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.room(c.caller, size, size-Free)
}

// room returns an error when a message of size bytes may not take more; mu is held.
func (b *Bytes) room(caller string, size, more int64) error {
	switch {
	case b.scarce && size > Small:
		return ErrScarce
	case b.used+more > b.most || b.of[caller]+more > b.most/2:
		return ErrFull
	}
	return nil
}

const (
	// firstPart is allocated for a message before any of it has arrived.
	firstPart = 64 << 10
	// growth is the factor by which the memory of a message grows when it is full.
	// growthUnknown is smaller, to waste little where the size is unknown.
	growth, growthUnknown = 4, 2
)

// Read reads a message of at most largest bytes. known is its announced size, negative
// without one. The claim counts its memory, which grows with what arrives. With an
// error ([ErrTooLarge], [ErrFull], [ErrScarce] or the reader's) Read returns what has
// arrived.
func (c *Claim) Read(r io.Reader, known, largest int64) ([]byte, error) {
	if known > largest {
		return nil, ErrTooLarge
	}
	end, first, factor := known, min(known, firstPart), growth
	if known < 0 {
		end, first, factor = largest+1, 512, growthUnknown // one more byte shows that it is too large
	}
	if err := c.fits(known); err != nil {
		return nil, err
	}
	if err := c.grow(first); err != nil {
		return nil, err
	}
	body := make([]byte, first)
	n := 0
	for {
		more, err := io.ReadFull(r, body[n:])
		n += more
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			if known >= 0 && int64(n) < known {
				return body[:n], fmt.Errorf("%d of %d bytes came: %w", n, known, io.ErrUnexpectedEOF)
			}
			return body[:n], nil
		case err != nil:
			return body[:n], err
		case known < 0 && int64(n) > largest:
			return body[:n], ErrTooLarge
		case int64(n) == end:
			return body, nil
		}
		size := min(end, int64(factor*n))
		if err := c.grow(size); err != nil {
			return body[:n], err
		}
		larger := make([]byte, size)
		copy(larger, body)
		body = larger
	}
}

// Append appends a part to a message, counted like [Claim.Read].
func (c *Claim) Append(message, part []byte) ([]byte, error) {
	need := len(message) + len(part)
	if need <= cap(message) {
		return append(message, part...), nil
	}
	size := need
	if len(message) > 0 {
		size = max(need, 2*cap(message))
	}
	if err := c.grow(int64(size)); err != nil {
		return message, err
	}
	larger := make([]byte, len(message), size)
	copy(larger, message)
	return append(larger, part...), nil
}
