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
	// firstListBrief is how long a request waits that is no list, or whose client is
	// told of changes anyway.
	firstListBrief = 400 * time.Millisecond
	// firstListQuiet is how long a first list waits for the next server once something
	// is known. It waits longer where the last server took longer: the machine is slow.
	firstListQuiet = 2 * time.Second
)

// firstLists delays the first lists after a start while servers are starting whose
// lists are unknown. A client that lists only once never sees more than it gets then
// (docs/adr/0005). Each server is waited for once. The zero value waits for nothing.
type firstLists struct {
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

func newFirstLists(limit time.Duration, missed func([]string)) *firstLists {
	return &firstLists{began: time.Now(), long: max(0, limit), quiet: firstListQuiet, timedOut: missed, over: limit < 0}
}

// update takes over what is known of the servers.
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
			unknown[s.backend.Name()] = true // its list is on the way into a snapshot
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

// wakeWaiters wakes the waiting requests; mu is held.
func (f *firstLists) wakeWaiters() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// wait returns when everything that a request needs is known: one server, or all in
// scope when server is empty. With brief it waits only a moment.
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

// end is when the wait ends at the latest; mu is held.
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

// nextChange returns the channel that the next change closes; mu is held.
func (f *firstLists) nextChange() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// needs reports whether a request needs a server that is still starting; mu is held.
func (f *firstLists) needs(server string, scope Scope) bool {
	if server != "" {
		return f.unknown[server]
	}
	if scope.Server != "" {
		return f.unknown[scope.Server]
	}
	return len(f.unknown) > 0 || f.unknown == nil
}

// requireWait makes all first lists wait as long as the user asked for, and initialize
// too: only there are servers' instructions told.
func (f *firstLists) requireWait(d time.Duration) { f.long, f.quiet, f.asked = d, d, true }

// waitList delays a list during the start. A client that listens for changes of the
// list does not wait: it is told of them.
func (g *Gateway) waitList(ctx context.Context, x *Exchange, kind mcp.Kind) {
	g.first.wait(ctx, "", x.Scope, !g.first.asked && x.Era == mcp.Modern && listensFor(g.listens.list(), x, kind))
}

// listensFor reports whether a caller listens for changes of a list.
func listensFor(all []*listen, x *Exchange, kind mcp.Kind) bool {
	return slices.ContainsFunc(all, func(l *listen) bool {
		return l.wants(kind.Changed()) && l.x.Scope == x.Scope && l.x.Identity.Key() == x.Identity.Key()
	})
}

// waitCall delays a call during the start, while its server is unknown.
func (g *Gateway) waitCall(ctx context.Context, x *Exchange, kind mcp.Kind, name string) {
	if from := g.snapshot.Load().Catalog(x).serverFor(kind, name, x.Scope); from != nil {
		g.first.wait(ctx, from.backend.Name(), x.Scope, false)
	}
}

// WaitFirst sets how long first lists, and initialize, wait for starting servers
// because the user wants that. Call it before the gateway serves.
func (g *Gateway) WaitFirst(d time.Duration) { g.first.requireWait(d) }
