// Package firstlist delays the first lists after a start while servers are starting whose
// lists are unknown. A client that lists only once never sees more than it gets then
// (docs/adr/0005).
package firstlist

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// Brief is how long a request waits that is no list, or whose client is
	// told of changes anyway.
	Brief = 400 * time.Millisecond
	// Quiet is how long a first list waits for the next server once something
	// is known. It waits longer where the last server took longer: the machine is slow.
	Quiet = 2 * time.Second
)

// Server is what is known of a server.
type Server struct {
	Name string
	// Awaited means that its lists are unknown, because it is starting, or on the way.
	Awaited bool
	// Fetched means that an awaited server may have to be downloaded first.
	Fetched bool
	// Known means that its lists are known. Servers of the gateway's own do not count.
	Known bool
}

// Wait is the wait for first lists. Each server is waited for once. It is safe for
// concurrent use, once [Wait.Require] was called.
type Wait struct {
	began       time.Time
	long, quiet time.Duration
	asked       bool           // the user asked to wait
	timedOut    func([]string) // gets the servers that did not start in time; nil for nobody

	mu          sync.Mutex
	over        bool
	unknown     map[string]bool // servers that are starting and whose lists are unknown
	mayDownload bool            // one of them may have to be downloaded first
	known       int             // number of servers whose lists are known
	lastChange  time.Time       // when known last grew
	changed     chan struct{}   // closed at the next change; nil while nobody waits
}

// New returns a wait of at most limit after now, none where that is negative. missed is told
// of servers that did not start in time; it may be nil.
func New(limit time.Duration, missed func([]string)) *Wait {
	return &Wait{began: time.Now(), long: max(0, limit), quiet: Quiet, timedOut: missed, over: limit < 0}
}

// Update takes over what is known of the servers.
func (w *Wait) Update(servers []Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	unknown, known, fetched := make(map[string]bool), 0, false
	for _, s := range servers {
		switch {
		case s.Awaited:
			unknown[s.Name] = true
			fetched = fetched || s.Fetched
		case s.Known:
			known++
		}
	}
	if maps.Equal(unknown, w.unknown) && known == w.known && fetched == w.mayDownload {
		return
	}
	if known > w.known {
		w.lastChange = time.Now()
	}
	w.unknown, w.known, w.mayDownload = unknown, known, fetched
	if len(unknown) == 0 {
		w.over = true
	}
	w.wakeWaiters()
}

// wakeWaiters wakes the waiting requests; mu is held.
func (w *Wait) wakeWaiters() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// For returns when everything that a request needs is known: one server, or all where server
// is empty. With brief it waits only a moment.
func (w *Wait) For(ctx context.Context, server string, brief bool) {
	for {
		w.mu.Lock()
		end, moved := w.end(brief), w.nextChange()
		needs := !w.over && w.needs(server)
		var missed []string
		if late := !time.Now().Before(end); late && needs && !brief && server == "" && w.unknown != nil {
			missed = slices.Sorted(maps.Keys(w.unknown))
			w.over = true
			w.wakeWaiters()
		} else if late {
			needs = false
		}
		over := w.over
		w.mu.Unlock()
		if len(missed) > 0 && w.timedOut != nil {
			w.timedOut(missed)
		}
		if over || !needs {
			return
		}
		timer := time.NewTimer(time.Until(end))
		select {
		case <-moved:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// end is when the wait ends at the latest; mu is held.
func (w *Wait) end(brief bool) time.Time {
	moment, end := w.began.Add(min(Brief, w.long)), w.began.Add(w.long)
	switch {
	case brief, w.unknown == nil: // nothing is configured yet
		return moment
	case w.known == 0, w.mayDownload:
		return end
	}
	if quiet := w.lastChange.Add(max(w.quiet, w.lastChange.Sub(w.began))); quiet.Before(end) {
		end = quiet
	}
	if end.Before(moment) {
		return moment
	}
	return end
}

// nextChange returns the channel that the next change closes; mu is held.
func (w *Wait) nextChange() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// needs reports whether a request needs a server that is still starting; mu is held.
func (w *Wait) needs(server string) bool {
	if server != "" {
		return w.unknown[server]
	}
	return len(w.unknown) > 0 || w.unknown == nil
}

// Require makes all first lists wait as long as the user asked for, and initialize too: only
// there are servers' instructions told.
func (w *Wait) Require(d time.Duration) { w.long, w.quiet, w.asked = d, d, true }

// Required reports whether the user asked to wait.
func (w *Wait) Required() bool { return w.asked }
