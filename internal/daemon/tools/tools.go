package tools

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/follow"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
)

// Options are the parts of a running gateway that the declared tools need. All are
// required.
type Options struct {
	Log   *slog.Logger
	Store *store.Declared
	Keys  *seal.Keyring
	State *statedir.Dir
	// Config returns the settings in force as they were read. InForce returns them with
	// the tools from addresses and the store.
	Config, InForce func() *config.Config
	// Apply serves the current tools if load reports a change. Calls run one after the
	// other.
	Apply func(ctx context.Context, load func(context.Context) (changed bool, err error)) error
}

// Tools are the tools that are declared outside of the configuration file: at
// addresses, and in the store. It is safe for concurrent use. Make it with [New];
// [Tools.Run] keeps it up to date.
type Tools struct {
	o    Options
	due  chan struct{}    // capacity 1: an address may be due
	rows *follow.Follower // of the store

	mu         sync.Mutex
	sources    Sources
	stored     []storedTool
	generation int64 // of the store's tools
}

// Sources are addresses of tools.
type Sources []*source

// notServed is the generation while the store's tools could not be served.
const notServed = -1

// New returns the declared tools of a gateway, with none loaded yet.
func New(o Options) *Tools {
	t := &Tools{o: o, due: make(chan struct{}, 1)}
	t.rows = follow.New(follow.Options{
		Load: t.Load, Apply: o.Apply, Unserved: t.unserved,
		Late: func(err error) { o.Log.Error("tools that were declared in the store are not served yet", "err", err) },
	})
	return t
}

// Run fetches the addresses when they are due, and applies changes of the store, until
// the context ends.
func (t *Tools) Run(ctx context.Context) error {
	group := new(errgroup.Group)
	group.Go(func() error { return t.follow(ctx) })
	group.Go(func() error { return t.rows.Run(ctx) })
	return group.Wait()
}

// StoreChanged reports that the tools in the store have changed.
func (t *Tools) StoreChanged() { t.rows.Changed() }

// wake leaves a token, unless one is there already.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sourcesOf returns the sources of a configuration: existing ones where the settings
// are unchanged, and new ones with their stored copies.
func (t *Tools) sourcesOf(c *config.Config) Sources {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(Sources, 0, len(c.Toolgate.ToolURLs))
	for _, set := range c.Toolgate.ToolURLs {
		i := slices.IndexFunc(t.sources, func(s *source) bool { return s.set == set })
		if i >= 0 {
			out = append(out, t.sources[i])
			continue
		}
		s := &source{set: set, since: time.Now()}
		kept, err := s.load(t.o.State.Path, t.o.Keys)
		if err != nil {
			t.o.Log.Warn("the copy of tools is not used", "address", s.name(), "err", err)
		}
		s.kept = kept
		if !s.final() {
			s.next = time.Now()
		}
		out = append(out, s)
	}
	return out
}

// Use makes sources the ones in force, and removes the copies of former ones.
func (t *Tools) Use(list Sources) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, old := range t.sources {
		if !slices.ContainsFunc(list, func(s *source) bool { return s.set.URL == old.set.URL }) {
			_ = os.Remove(filepath.Join(t.o.State.Path, old.file())) // one that stays is used if its address comes back
		}
	}
	t.sources = list
	wake(t.due)
}

// all returns the sources in force.
func (t *Tools) all() Sources {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.sources)
}

// Accept takes the waiting documents for a reload, and describes the changes. The
// returned function completes it: with ok it stores copies, else it restores the
// previous state.
func (t *Tools) Accept() (taken []string, end func(ok bool)) {
	before := make(map[*source]*document)
	for _, s := range t.all() {
		s.mu.Lock()
		if s.waiting != nil {
			taken = append(taken, s.change())
			before[s] = s.kept
			s.kept, s.waiting, s.since = s.waiting, s.kept, time.Now()
		}
		s.mu.Unlock()
	}
	return taken, func(ok bool) {
		for s, old := range before {
			s.mu.Lock()
			if ok {
				s.waiting = nil
				s.save(&t.o)
			} else {
				s.kept, s.waiting = old, s.kept
			}
			s.mu.Unlock()
		}
	}
}

// Pending describes what waits for a person.
func (t *Tools) Pending() []string {
	var out []string
	for _, s := range t.all() {
		s.mu.Lock()
		if s.waiting != nil {
			out = append(out, s.change())
		}
		s.mu.Unlock()
	}
	return out
}

// Rows shows the addresses in the list of servers. Their reasons do not say yet why a
// document waits.
func (t *Tools) Rows() []admin.Server {
	var out []admin.Server
	for _, s := range t.all() {
		s.mu.Lock()
		row := admin.Server{Name: s.name(), Kind: "tools", State: mcp.Ready.String(), Seconds: time.Since(s.since).Seconds()}
		switch {
		case s.kept == nil && s.problem != "" || s.unfit != "":
			row.State = mcp.Failed.String()
		case s.kept == nil:
			row.State = mcp.Starting.String()
		case s.problem != "":
			row.Stale = true
		}
		why := []string{s.unfit, s.problem}
		if s.waiting != nil {
			row.Pending = []string{"tools"}
		}
		row.Reason = strings.Join(slices.DeleteFunc(why, func(text string) bool { return text == "" }), "; ")
		s.mu.Unlock()
		out = append(out, row)
	}
	return out
}
