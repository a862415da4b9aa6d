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
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
)

// Options are what the tools that are declared elsewhere need of a running gateway. All
// of it is needed.
type Options struct {
	Log   *slog.Logger
	Store *store.Declared
	Keys  *seal.Keyring
	State *statedir.Dir
	// Config returns the settings in force as they were read, InForce those with the
	// tools that are declared elsewhere.
	Config, InForce func() *config.Config
	// Apply serves what is declared now, if load says that it has changed. One call
	// follows the other.
	Apply func(ctx context.Context, load func(context.Context) (changed bool, err error)) error
}

// Tools are those that are declared outside of the configuration file: at addresses, and
// in the store. They are safe for concurrent use. Make them with [New]; [Tools.Run]
// keeps up with both.
type Tools struct {
	o       Options
	due     chan struct{} // capacity 1: it may be time to ask an address
	changed chan struct{} // capacity 1: the store holds others

	mu         sync.Mutex
	sources    Sources
	stored     []storedTool
	generation int64 // of the store's
}

// Sources are addresses of tools.
type Sources []*source

// applyPause is how long what could not be served is left alone.
const applyPause = time.Second

// notServed is the generation of what the store holds while that could not be served.
const notServed = -1

// New returns the tools of a gateway, of which none is loaded yet.
func New(o Options) *Tools {
	return &Tools{o: o, due: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// Run asks the addresses when it is time to, and keeps up with the store, until the
// context ends.
func (t *Tools) Run(ctx context.Context) error {
	group := new(errgroup.Group)
	group.Go(func() error { return t.follow(ctx) })
	group.Go(func() error { return t.followStore(ctx) })
	return group.Wait()
}

// StoreChanged takes the news that the store holds others.
func (t *Tools) StoreChanged() { wake(t.changed) }

// wake leaves a token unless one is there, which stands for both.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sourcesOf returns the sources of a configuration: those that there are where the
// settings are the same, and others with the copy that is kept of them.
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

// Use makes sources those of the configuration in force. The copies of others
// that were are removed.
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

// all are the sources of the configuration in force.
func (t *Tools) all() Sources {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.sources)
}

// Accept takes what waits, for a person who has asked for a reload, and says what
// that changes. The returned function ends it: by keeping copies, or by leaving
// everything as it was.
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

// Pending says what waits for a person.
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

// Rows shows the addresses in the list of servers. Why something waits is not in their
// reasons yet.
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
