package schema

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// Options configure a [Checker]. The zero value has the defaults.
type Options struct {
	// Entries bounds the number of cached schemas; zero means 2048.
	Entries int
	// Bytes bounds the total size of cached schemas in bytes; zero means 32 MiB. A
	// compiled schema takes about twenty times the bytes of its text.
	Bytes int64
	// Wait is how long one check waits for its schema; zero means one second.
	Wait time.Duration
	// AssertFormat checks "format" too, as JSON Schema before 2019-09 did.
	AssertFormat bool
}

const (
	// preparing is how many schemas are compiled at once.
	preparing = 2
	// maxPending is how many schemas may wait; further callers are told to try again.
	maxPending = 128
)

// Checker compiles schemas and caches those that were used last, including refused
// ones. It is safe for concurrent use. The zero Checker, and a nil one, quarantine
// every schema; make one with [New].
//
// A schema that is not cached is compiled in its own goroutine, at most two at once.
// The goroutine ends by itself, because vetting bounds its work. A caller waits for it
// no longer than [Options.Wait].
type Checker struct {
	options Options
	slots   chan struct{}

	mu      sync.Mutex // guards what follows
	entries map[[sha256.Size]byte]*list.Element
	recent  *list.List // of *entry, the one used last in front
	bytes   int64
	pending int // entries that are not compiled yet, including evicted ones
}

// entry is a schema in the cache, or on its way there.
type entry struct {
	key   [sha256.Size]byte
	bytes int64
	done  chan struct{} // closed once schema and err are set
	late  bool          // a caller has given up waiting; guarded by Checker.mu

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

// Check validates the arguments of a call against the tool's input schema. Nil, empty
// and null schemas accept any object; nil arguments are an empty object. The error is
// a [*Quarantined]; invalid arguments are not an error.
func (c *Checker) Check(schema, arguments []byte) (*Result, error) {
	s, err := c.Compile(schema)
	if err != nil {
		return nil, err
	}
	return s.Check(ReadArguments(arguments)), nil
}

// Compile returns the compiled schema of a text. It does not keep or change the text.
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

// entry returns the entry of a schema, and starts compiling a new one; nil when too
// many are waiting.
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

// evict removes the least recently used entry. Callers that wait for it still get it.
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
