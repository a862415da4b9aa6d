package limit

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Bytes bounds the memory of the messages that clients send, in all and of one
// caller. Memory is counted when it is taken for a message, as far as the message
// has come, and until the message has been handled. It is safe for concurrent use.
// The zero Bytes lets no message be larger than [Free].
type Bytes struct {
	mu     sync.Mutex
	most   int64
	used   int64
	of     map[string]int64 // by caller
	scarce bool
}

const (
	// Free is how much of each message is not counted: about what a connection
	// costs by itself, so that the number of connections bounds it.
	Free = 16 << 10
	// Small is the largest message that is taken while memory is scarce.
	Small = 256 << 10
)

var (
	// ErrFull is why a message is not read: others take the room.
	ErrFull = errors.New("too many bytes of messages are being handled")
	// ErrScarce is why a large one is not: the gateway is short of memory.
	ErrScarce = errors.New("the gateway is short of memory")
	// ErrTooLarge is why one is not read further: it is larger than any may be.
	ErrTooLarge = errors.New("the message is too large")
)

// NewBytes returns a bound of so many bytes in all, of which one caller may have
// half, so that no caller keeps out all others. A single message of largest bytes
// always fits where nothing else is there.
func NewBytes(most, largest int64) *Bytes {
	return &Bytes{most: max(most, 2*largest), of: make(map[string]int64)}
}

// Scarce says whether memory is scarce from now on. What is held stays.
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

// Claim is what one message takes. It is used by one goroutine at a time.
type Claim struct {
	of     *Bytes
	caller string
	held   int64 // counted
}

// Claim begins to count a message of a caller. It takes nothing yet.
func (b *Bytes) Claim(caller string) *Claim { return &Claim{of: b, caller: caller} }

// grow makes the claim one for size bytes, or says why not: [ErrFull] or
// [ErrScarce].
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

// Release gives everything back. It may be called more than once.
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

// fits tells in advance, by its announced size, why a message cannot be read; nil
// where it can be tried.
func (c *Claim) fits(size int64) error {
	if size <= firstPart {
		return nil // grow says it at once
	}
	b := c.of
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.room(c.caller, size, size-Free)
}

// room tells why a message of size bytes may not take more; mu is held.
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
	// firstPart is the memory that is taken for a message before any of it came.
	firstPart = 64 << 10
	// growth is how many times larger the memory of a message becomes when it is
	// full; where its size is not known, so that little is left over, twice.
	growth, growthUnknown = 4, 2
)

// Read reads a message of at most so many bytes to its end. known is its announced
// size, negative for none. Its memory is counted by the claim and grows with what
// really comes; what has come is returned with the error of the reader, [ErrTooLarge],
// [ErrFull] or [ErrScarce].
func (c *Claim) Read(r io.Reader, known, largest int64) ([]byte, error) {
	if known > largest {
		return nil, ErrTooLarge
	}
	end, first, factor := known, min(known, firstPart), growth
	if known < 0 {
		end, first, factor = largest+1, 512, growthUnknown // one more byte tells that it is too large
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

// Append appends a part to a message that is gathered, as [Claim.Read] does.
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
