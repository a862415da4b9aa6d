package headroom

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Level is where a meter stands.
type Level int

const (
	// Between is short of the threshold, but not by the margin.
	Between Level = iota
	// Clear is short of the threshold by the margin.
	Clear
	// Tight is at the threshold or beyond.
	Tight
)

// Reading is what a meter read.
type Reading struct {
	Level Level
	Text  string // for people, as in "480MiB of 512MiB are in use (93%), the threshold is 90%"
}

// Meter reads how much there is left of something. It is used by one goroutine
// at a time.
type Meter struct {
	Name string // of what, as in "memory of the process"; unique among those of a [Watcher]
	Read func() (Reading, error)
}

// Defaults of [Options].
const (
	DefaultEvery = time.Second
	DefaultAfter = 5 * time.Second
	DefaultBack  = 30 * time.Second
)

// Options say what is watched. Zero times are replaced by the defaults.
type Options struct {
	Meters []Meter
	Every  time.Duration // between two readings
	After  time.Duration // how long a meter is tight before it is a shortage
	Back   time.Duration // how long it is clear before the shortage is over
}

// Short is one thing that there is too little of.
type Short struct {
	Name string // of the meter
	Text string // what it read when the shortage began
}

// Shortage is all that there is too little of, by name. An empty one is none.
type Shortage []Short

// String says what is short, for people.
func (s Shortage) String() string {
	parts := make([]string, len(s))
	for i, one := range s {
		parts[i] = one.Name + ": " + one.Text
	}
	return strings.Join(parts, "; ")
}

// OfMemory tells whether memory is among what there is too little of.
func (s Shortage) OfMemory() bool {
	return slices.ContainsFunc(s, func(one Short) bool { return one.Name == ofProcess || one.Name == ofCgroup })
}

// Watcher follows meters. The zero Watcher has none and is ready for use.
type Watcher struct {
	// Logger is told of meters that cannot be read; nil discards. It is not
	// changed once Run has begun.
	Logger *slog.Logger

	options atomic.Pointer[Options] // nil for those without meters
}

// Use puts options in force, also while [Watcher.Run] runs. A meter keeps what
// is known of it over this by its name. It is safe for concurrent use.
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

// Run reads the meters until the context ends and returns nil then. It calls
// changed, on its own goroutine, whenever a shortage begins, becomes another, or
// is over, and not when ctx ends. Only one Run may be active.
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

// state is what is known of one meter.
type state struct {
	short  *Short    // nil while there is enough
	since  time.Time // from when on it reads what would change that; zero when it does not
	unread bool      // it could not be read the last time
}

// look reads all meters, drops what is known of others and returns the
// shortage.
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

// read reads a meter. One that cannot be read keeps nothing back: it is as one
// that is clear.
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

// next takes a reading over.
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
