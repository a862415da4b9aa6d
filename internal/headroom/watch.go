package headroom

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Level is the level of a reading.
type Level int

const (
	// Between is below the threshold, but within the margin.
	Between Level = iota
	// Clear is below the threshold by the margin.
	Clear
	// Tight is at or beyond the threshold.
	Tight
)

// Reading is one reading of a meter.
type Reading struct {
	Level Level
	Text  string // for people, as in "480MiB of 512MiB are in use (93%), the threshold is 90%"
}

// Meter measures a resource. It is used by one goroutine at a time.
type Meter struct {
	Name string // such as "memory of the process"; unique in a [Watcher]
	Read func() (Reading, error)
}

// Defaults of [Options].
const (
	DefaultEvery = time.Second
	DefaultAfter = 5 * time.Second
	DefaultBack  = 30 * time.Second
)

// Options configure what is watched. Zero times stand for the defaults.
type Options struct {
	Meters []Meter
	Every  time.Duration // interval of readings
	After  time.Duration // how long a meter must be tight before a shortage begins
	Back   time.Duration // how long it must be clear before the shortage ends
}

// Short is one resource that is short.
type Short struct {
	Name string // name of the meter
	Text string // its reading when the shortage began
}

// Shortage is all resources that are short, by name. An empty one is none.
type Shortage []Short

// String names the short resources, for people.
func (s Shortage) String() string {
	parts := make([]string, len(s))
	for i, one := range s {
		parts[i] = one.Name + ": " + one.Text
	}
	return strings.Join(parts, "; ")
}

// OfMemory reports whether memory is short.
func (s Shortage) OfMemory() bool {
	return slices.ContainsFunc(s, func(one Short) bool { return one.Name == ofProcess || one.Name == ofCgroup })
}

// Watcher watches meters. The zero Watcher has none and is ready for use.
type Watcher struct {
	// Logger is used for meters that cannot be read; nil discards. It must not change
	// after Run has begun.
	Logger *slog.Logger

	options atomic.Pointer[Options] // nil for the defaults, without meters
}

// Use puts options in force, also while [Watcher.Run] runs. The state of a meter with
// the same name is kept. It is safe for concurrent use.
func (w *Watcher) Use(o Options) {
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.After <= 0 {
		o.After = DefaultAfter
	}
	if o.Back <= 0 {
		o.Back = DefaultBack
	}
	w.options.Store(&o)
}

// Run reads the meters until the context ends and then returns nil. It calls changed in
// its own goroutine whenever a shortage begins, changes or ends, but not at the end of
// ctx. Only one Run may be active.
func (w *Watcher) Run(ctx context.Context, changed func(Shortage)) error {
	known := map[string]*state{}
	var last Shortage
	for {
		o := w.options.Load()
		if o == nil {
			o = &Options{Every: DefaultEvery}
		}
		if now := w.look(o, known, time.Now()); !slices.Equal(now, last) {
			last = now
			changed(slices.Clone(now))
		}
		pause := time.NewTimer(o.Every)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
}

// state is the state of one meter.
type state struct {
	short  *Short    // nil without a shortage
	since  time.Time // start of the readings that would change that; zero without any
	unread bool      // the last reading failed
}

// look reads all meters, drops the state of others and returns the shortage.
func (w *Watcher) look(o *Options, known map[string]*state, now time.Time) Shortage {
	var short Shortage
	there := map[string]bool{}
	for i := range o.Meters {
		m := &o.Meters[i]
		there[m.Name] = true
		s := known[m.Name]
		if s == nil {
			s = &state{}
			known[m.Name] = s
		}
		s.next(w.read(m, s), m.Name, o, now)
		if s.short != nil {
			short = append(short, *s.short)
		}
	}
	for name := range known {
		if !there[name] {
			delete(known, name)
		}
	}
	slices.SortFunc(short, func(a, b Short) int { return strings.Compare(a.Name, b.Name) })
	return short
}

// read reads a meter. A meter that cannot be read counts as clear.
func (w *Watcher) read(m *Meter, s *state) Reading {
	r, err := m.Read()
	if err == nil {
		s.unread = false
		return r
	}
	if !s.unread && w.Logger != nil {
		w.Logger.Warn("it cannot be read how much is left; nothing is held back for it", "of", m.Name, "err", err)
	}
	s.unread = true
	return Reading{Level: Clear}
}

// next applies a reading to the state.
func (s *state) next(r Reading, name string, o *Options, now time.Time) {
	turning, lasting := Tight, o.After
	if s.short != nil {
		turning, lasting = Clear, o.Back
	}
	if r.Level != turning {
		s.since = time.Time{}
		return
	}
	if s.since.IsZero() {
		s.since = now
	}
	if now.Sub(s.since) < lasting {
		return
	}
	s.since = time.Time{}
	if s.short != nil {
		s.short = nil
		return
	}
	s.short = &Short{Name: name, Text: r.Text}
}
