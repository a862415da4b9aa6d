package schema

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// Options of a [Checker]. The zero value has the defaults.
type Options struct {
	// Entries is how many schemas are kept prepared; zero means 2048.
	Entries int
	// Bytes is how many bytes of schemas are kept prepared; zero means 32 MiB.
	// A prepared schema takes about twenty times the bytes of its text.
	Bytes int64
	// Wait is how long one check waits for its schema to be prepared; zero
	// means one second.
	Wait time.Duration
	// AssertFormat checks "format" too, as JSON Schema before 2019-09 asked.
	AssertFormat bool
}

const (
	// preparing is how many schemas are prepared at a time.
	preparing = 2
	// maxPending is how many may wait for it; more are told to come again.
	maxPending = 128
)

// Checker prepares schemas and keeps those that were used last, refused ones
// included. It is safe for concurrent use. The zero Checker, and a nil one,
// quarantine every schema; make one with [New].
//
// A schema that is not kept is prepared in a goroutine of its own, at most two
// at a time, which ends by itself: the vetting bounds its work. Whoever asks
// waits for it no longer than [Options.Wait].
type Checker struct {
	options Options
	slots   chan struct{}

	mu      sync.Mutex // guards what follows
	entries map[[sha256.Size]byte]*list.Element
	recent  *list.List // of *entry, the one used last in front
	bytes   int64
	pending int // entries that are not prepared yet, evicted ones included
}

// entry is a schema that is kept or being prepared.
type entry struct {
	key   [sha256.Size]byte
	bytes int64
	done  chan struct{} // closed once schema and err are set
	late  bool          // somebody waited in vain; guarded by Checker.mu

	schema *Schema
	err    error
}

// New returns a checker.
func New(o Options) *Checker {
	if o.Entries <= 0 {
		o.Entries = 2048
	}
	if o.Bytes <= 0 {
		o.Bytes = 32 << 20
	}
	if o.Wait <= 0 {
		o.Wait = time.Second
	}
	return &Checker{
		options: o,
		slots:   make(chan struct{}, preparing),
		entries: map[[sha256.Size]byte]*list.Element{},
		recent:  list.New(),
	}
}

// Check holds the arguments of a call against the tool's input schema. Nil,
// empty and null schemas accept any object, nil arguments are an empty object.
// The error is a [*Quarantined]; that arguments do not fit is no error.
func (c *Checker) Check(schema, arguments []byte) (*Result, error) {
	s, err := c.Compile(schema)
	if err != nil {
		return nil, err
	}
	return s.Check(ReadArguments(arguments)), nil
}

// Compile returns the prepared schema of a text, which is not kept or changed.
// The error is a [*Quarantined].
func (c *Checker) Compile(schema []byte) (*Schema, error) {
	if c == nil || c.entries == nil {
		return nil, refuse("", "there is no checker")
	}
	if len(schema) > MaxBytes { // not worth a hash
		return nil, refuse("", "it has %d bytes and may have %d", len(schema), MaxBytes)
	}
	e, late := c.entry(schema)
	if e == nil {
		return nil, &Quarantined{Reason: "too many others are being prepared", Busy: true}
	}
	select {
	case <-e.done:
		return e.schema, e.err
	default:
	}
	if late {
		return nil, &Quarantined{Reason: "preparing it takes too long", Busy: true}
	}
	timer := time.NewTimer(c.options.Wait)
	defer timer.Stop()
	select {
	case <-e.done:
		return e.schema, e.err
	case <-timer.C:
		c.mu.Lock()
		e.late = true
		c.mu.Unlock()
		return nil, &Quarantined{Reason: "preparing it takes too long", Busy: true}
	}
}

// entry returns the entry of a schema, and starts to prepare a new one; nil
// when too many are being prepared.
func (c *Checker) entry(schema []byte) (e *entry, late bool) {
	key := sha256.Sum256(schema)
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[key]; ok {
		c.recent.MoveToFront(element)
		e = element.Value.(*entry)
		return e, e.late
	}
	if c.pending >= maxPending {
		return nil, false
	}
	c.pending++
	e = &entry{key: key, bytes: int64(len(schema)), done: make(chan struct{})}
	c.entries[key] = c.recent.PushFront(e)
	c.bytes += e.bytes
	for len(c.entries) > 1 && (len(c.entries) > c.options.Entries || c.bytes > c.options.Bytes) {
		c.evict()
	}
	text := append([]byte(nil), schema...)
	go c.prepare(e, text)
	return e, false
}

// evict drops the entry that was not used for longest. Whoever waits for it
// still gets it.
func (c *Checker) evict() {
	last := c.recent.Remove(c.recent.Back()).(*entry)
	delete(c.entries, last.key)
	c.bytes -= last.bytes
}

func (c *Checker) prepare(e *entry, text []byte) {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	defer func() {
		c.mu.Lock()
		c.pending--
		c.mu.Unlock()
		close(e.done)
	}()
	e.schema, e.err = compile(text, c.options.AssertFormat)
}
