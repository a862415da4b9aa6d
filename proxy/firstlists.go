package proxy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// firstListBrief is how long a first list waits for a client that is told of changes
	// for certain, and what is no list.
	firstListBrief = 400 * time.Millisecond
	// firstListQuiet is how long it waits for the next server once something is known. Where
	// the last one took longer itself, it waits that long: the machine is slow.
	firstListQuiet = 2 * time.Second
)

// firstLists holds the first lists after the start back while servers are starting of
// which nothing is known: a client that lists once sees no more than what it is
// answered then (docs/adr/0005). Each server is waited for once. The zero value waits
// for nothing.
type firstLists struct {
	began       time.Time
	long, quiet time.Duration
	asked       bool           // a person has asked for the wait
	timedOut    func([]string) // told who was waited for in vain; nil for nobody

	mu          sync.Mutex
	over        bool
	unknown     map[string]bool // servers that are starting and of which nothing is known
	mayDownload bool            // one of them is a program that may be downloaded first
	known       int             // of how many others something is known
	lastChange  time.Time       // when that became more
	changed     chan struct{}   // closed at the next news; nil while nobody waits
}

func newFirstLists(limit time.Duration, missed func([]string)) *firstLists {
	return &firstLists{began: time.Now(), long: max(0, limit), quiet: firstListQuiet, timedOut: missed, over: limit < 0}
}

// update takes account of what is known of the servers.
func (f *firstLists) update(servers []*backendEntry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	unknown, known, fetched := make(map[string]bool), 0, false
	for _, s := range servers {
		listing, status := s.backend.Listing()
		switch {
		case listing == nil && status.State == mcp.Starting:
			if !s.mount.SkipFirstListWait {
				unknown[s.backend.Name()] = true
				fetched = fetched || s.mount.Fetched
			}
		case listing != s.listing:
			unknown[s.backend.Name()] = true // what it lists is on its way into a snapshot
		case listing != nil && !s.mount.Native:
			known++
		}
	}
	if maps.Equal(unknown, f.unknown) && known == f.known && fetched == f.mayDownload {
		return
	}
	if known > f.known {
		f.lastChange = time.Now()
	}
	f.unknown, f.known, f.mayDownload = unknown, known, fetched
	if len(unknown) == 0 {
		f.over = true
	}
	f.wakeWaiters()
}

// wakeWaiters wakes those who wait; mu is held.
func (f *firstLists) wakeWaiters() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// wait returns when nothing is waited for any more that a request needs: one server, or
// with an empty name all in scope. With brief it waits for a moment at most.
func (f *firstLists) wait(ctx context.Context, server string, scope Scope, brief bool) {
	for {
		f.mu.Lock()
		end, moved := f.end(brief), f.nextChange()
		needs := !f.over && f.needs(server, scope)
		var missed []string
		if late := !time.Now().Before(end); late && needs && !brief && server == "" && scope.Server == "" && f.unknown != nil {
			missed = slices.Sorted(maps.Keys(f.unknown))
			f.over = true
			f.wakeWaiters()
		} else if late {
			needs = false
		}
		over := f.over
		f.mu.Unlock()
		if len(missed) > 0 && f.timedOut != nil {
			f.timedOut(missed)
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

// end is when the wait ends whatever happens; mu is held.
func (f *firstLists) end(brief bool) time.Time {
	moment, end := f.began.Add(min(firstListBrief, f.long)), f.began.Add(f.long)
	switch {
	case brief, f.unknown == nil: // nothing is configured yet
		return moment
	case f.known == 0, f.mayDownload:
		return end
	}
	if quiet := f.lastChange.Add(max(f.quiet, f.lastChange.Sub(f.began))); quiet.Before(end) {
		end = quiet
	}
	if end.Before(moment) {
		return moment
	}
	return end
}

// pollNext returns what the next news closes; mu is held.
func (f *firstLists) nextChange() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// dependencies tells whether a server is waited for that a request needs; mu is held.
func (f *firstLists) needs(server string, scope Scope) bool {
	if server != "" {
		return f.unknown[server]
	}
	if scope.Server != "" {
		return f.unknown[scope.Server]
	}
	return len(f.unknown) > 0 || f.unknown == nil
}

// requireWait has everything wait that a person wants to, initialize too: what servers say of
// themselves is told there and nowhere else.
func (f *firstLists) requireWait(d time.Duration) { f.long, f.quiet, f.asked = d, d, true }

// waitList holds a list back at the very start. A client that has said that it listens
// to changes of the list is not kept: it is told what comes.
func (g *Gateway) waitList(ctx context.Context, x *Exchange, kind mcp.Kind) {
	g.first.wait(ctx, "", x.Scope, !g.first.asked && x.Era == mcp.Modern && listensFor(g.listens.list(), x, kind))
}

// listensFor tells whether a caller has said that it listens to changes of a list.
func listensFor(all []*listen, x *Exchange, kind mcp.Kind) bool {
	return slices.ContainsFunc(all, func(l *listen) bool {
		return l.wants(kind.Changed()) && l.x.Scope == x.Scope && l.x.Identity.Key() == x.Identity.Key()
	})
}

// waitCall holds a call back at the very start, while nothing is known of the server
// that its name would be of.
func (g *Gateway) waitCall(ctx context.Context, x *Exchange, kind mcp.Kind, name string) {
	if from := g.snapshot.Load().Catalog(x).serverFor(kind, name, x.Scope); from != nil {
		g.first.wait(ctx, from.backend.Name(), x.Scope, false)
	}
}

// WaitFirst sets how long the first lists, and initialize, wait for servers of which
// nothing is known, because a person wants that. It must be called before the gateway
// serves.
func (g *Gateway) WaitFirst(d time.Duration) { g.first.requireWait(d) }
