package intercept

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"sync"
	"time"
)

// Limits of [Definitions].
const (
	maxKnown    = 1 << 14          // definitions in each of two maps
	maxWaiting  = 1 << 14          // definitions that nobody has been asked about yet
	askers      = 4                // that ask at the same time
	retryPause  = 30 * time.Second // after a failure
	gatherPause = 20 * time.Millisecond
)

// Definition is what a server lists.
type Definition struct {
	Method       string // of the list, such as tools/list
	Server, Name string // the key in the configuration, and the exposed name or URI
	Raw          []byte // the definition as the server lists it
}

func (d *Definition) key() definitionKey {
	h := sha256.New()
	for _, part := range [...][]byte{[]byte(d.Method), []byte(d.Server), []byte(d.Name), d.Raw} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return definitionKey(h.Sum(nil))
}

type definitionKey [sha256.Size]byte

// Listing is what interceptors say of a definition.
type Listing struct {
	Withheld bool
	Notes    []Note
}

// Definitions asks interceptors about definitions, in the background and once about each,
// and remembers what they said. Make it with [NewDefinitions]; it is safe for concurrent
// use, with one Run.
type Definitions struct {
	log     *slog.Logger
	told    func(Event)
	changed func() // there is something new to be listed, or to be withheld

	wake chan struct{} // capacity 1

	mu          sync.Mutex
	chain       *Chain
	young, aged map[definitionKey]*Listing // when young is full, it replaces aged
	waiting     map[definitionKey]Definition
}

// NewDefinitions returns one that asks nobody before [Definitions.Use]. told is given what
// each interceptor says, and changed is called when another look is worth while. Both may
// be called concurrently and must not block.
func NewDefinitions(log *slog.Logger, told func(Event), changed func()) *Definitions {
	return &Definitions{log: log, told: told, changed: changed, wake: make(chan struct{}, 1), waiting: make(map[definitionKey]Definition)}
}

// Use asks the interceptors of a chain from now on. What others said is forgotten.
func (d *Definitions) Use(c *Chain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chain, d.young, d.aged = c, nil, nil
	clear(d.waiting)
}

// Look returns what interceptors say of a definition. What nobody has been asked about yet
// is withheld if a failure would withhold it. It does not block.
func (d *Definitions) Look(of *Definition) Listing {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.chain.Meets(List, of.Name) {
		return Listing{}
	}
	key := of.key()
	known := d.young[key]
	if known == nil {
		if known = d.aged[key]; known != nil {
			d.keep(key, known)
		}
	}
	if known != nil {
		return *known
	}
	if len(d.waiting) < maxWaiting {
		d.waiting[key] = *of
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	return Listing{Withheld: d.chain.closes(List, of.Name)}
}

// keep remembers what was said; mu is held.
func (d *Definitions) keep(key definitionKey, said *Listing) {
	if d.young == nil || len(d.young) >= maxKnown {
		d.aged, d.young = d.young, make(map[definitionKey]*Listing)
	}
	d.young[key] = said
}

// Run asks until the context ends.
func (d *Definitions) Run(ctx context.Context) error {
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry:
			retry = nil
			d.changed() // the next look asks again
			continue
		case <-d.wake:
		}
		select { // what follows at once is asked about together
		case <-ctx.Done():
			return nil
		case <-time.After(gatherPause):
		}
		if !d.askAll(ctx) {
			retry = time.After(retryPause)
		}
	}
}

// askAll asks about everything that waits. sure is false if an interceptor has failed.
func (d *Definitions) askAll(ctx context.Context) (sure bool) {
	d.mu.Lock()
	chain, waiting := d.chain, d.waiting
	d.waiting = make(map[definitionKey]Definition)
	d.mu.Unlock()
	keys := make(chan definitionKey)
	var running sync.WaitGroup
	var mu sync.Mutex
	sure = true
	for range min(askers, len(waiting)) {
		running.Go(func() {
			for key := range keys {
				of := waiting[key]
				said, ok := d.ask(ctx, chain, &of)
				if ok {
					d.said(chain, key, said)
				}
				mu.Lock()
				sure = sure && ok
				mu.Unlock()
			}
		})
	}
	for key := range waiting {
		keys <- key
	}
	close(keys)
	running.Wait()
	d.changed()
	return sure
}

// said remembers what interceptors said, if they are still those in use.
func (d *Definitions) said(by *Chain, key definitionKey, l *Listing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.chain == by {
		d.keep(key, l)
	}
}

// ask asks about one definition. sure is false where an interceptor that counts has
// failed.
func (d *Definitions) ask(ctx context.Context, c *Chain, of *Definition) (l *Listing, sure bool) {
	sure = true
	r := c.Run(ctx, List, &Call{Method: of.Method, Server: of.Server, Name: of.Name}, of.Raw, func(e Event) {
		sure = sure && (e.Verdict != "error" || e.Audit)
		d.told(e)
	})
	if r.Denied != nil && r.Denied.Err == nil {
		d.log.Info("an interceptor withholds a definition", "interceptor", r.Denied.By, "server", of.Server, "name", of.Name, "reason", r.Denied.Reason)
	}
	return &Listing{Withheld: r.Denied != nil, Notes: r.Notes}, sure
}
