package added

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/enable"
)

// Options are what the added servers need of a running gateway. All of it is needed.
type Options struct {
	Log   *slog.Logger
	Store *store.Dynamic
	// Config returns the settings in force.
	Config func() *config.Config
	// Apply serves what is added now, if load says that it has changed. One call
	// follows the other.
	Apply func(ctx context.Context, load func(context.Context) (changed bool, err error)) error
	// Status tells how a server does that runs.
	Status func(server string) (status mcp.Status, runs bool)
	// Settle waits until what servers list is in the catalog.
	Settle func(ctx context.Context)
}

// Servers are those that were added. They implement [enable.Catalog], and are safe for
// concurrent use. Make them with [New]; [Servers.Run] keeps up with the store.
type Servers struct {
	o       Options
	backend *enable.Backend
	chain   atomic.Pointer[gate.Chain] // decides who may add what; nil denies
	changed chan struct{}              // capacity 1: the store holds others

	mu         sync.Mutex
	list       []store.DynamicRecord
	generation int64
}

// New returns the added servers of a gateway, of which none is loaded yet.
func New(o Options) *Servers {
	s := &Servers{o: o, changed: make(chan struct{}, 1)}
	s.backend = enable.New(s)
	return s
}

// Backend are the tools by which servers are added.
func (s *Servers) Backend() *enable.Backend { return s.backend }

// Use has a chain decide from now on who may add what.
func (s *Servers) Use(chain *gate.Chain) { s.chain.Store(chain) }

// StoreChanged takes the news that the store holds others.
func (s *Servers) StoreChanged() {
	select {
	case s.changed <- struct{}{}:
	default: // the token that is there stands for this one too
	}
}

// records are those that were added, as they were read last.
func (s *Servers) records() []store.DynamicRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

const (
	// addWait is how long add_server waits for the new server to list its tools.
	addWait = 10 * time.Second
	// addPoll is how often it looks.
	addPoll = 50 * time.Millisecond
	// addPause is how long what could not be served is left alone.
	addPause = time.Second
)

// Load reads what was added and tells whether it is not what it was. Of a
// store that was not there at the start it is none, until that tells of some.
func (s *Servers) Load(ctx context.Context) (changed bool, err error) {
	list, generation, err := s.o.Store.List(ctx)
	if errors.Is(err, store.ErrUnreached) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the servers that were added: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = generation != s.generation
	s.list, s.generation = list, generation
	return changed, nil
}

// Run keeps up with what is added, here and at other gateways that share
// the store, until the context ends.
func (s *Servers) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			if err := s.apply(ctx); err != nil && ctx.Err() == nil {
				s.o.Log.Error("servers that were added or removed are not served yet", "err", err)
				select { // before it is tried again
				case <-ctx.Done():
				case <-time.After(addPause):
				}
			}
		}
	}
}

// apply serves what was added, and nothing that was removed.
func (s *Servers) apply(ctx context.Context) error {
	loaded := false
	err := s.o.Apply(ctx, func(ctx context.Context) (bool, error) {
		changed, err := s.Load(ctx)
		loaded = err == nil
		return changed, err
	})
	if err != nil && loaded {
		s.mu.Lock()
		s.generation = notServed
		s.mu.Unlock()
		s.StoreChanged()
	}
	return err
}

// notServed is the generation of what was added while that could not be served.
const notServed = -1

// Beside returns the servers of a configuration that are served: those that
// are not only offered, and those that were added. owners are the principals of
// those that are not everyone's.
func (s *Servers) Beside(c *config.Config) (servers []config.Server, owners map[string]string) {
	added := s.records()
	servers = slices.DeleteFunc(slices.Clone(c.Servers), func(s config.Server) bool { return s.Offer != nil })
	owners = make(map[string]string)
	for i := range added {
		r := &added[i]
		template, _ := c.Server(r.Entry)
		server, ok := template.Enabled(r.Server, Namespace(r.Entry, r.Server), readArguments(r.Arguments))
		if _, taken := c.Server(r.Server); !ok || taken {
			s.o.Log.Warn("a server that was added is not served: the configuration does not offer it any more", "server", r.Server, "offer", r.Entry)
			continue
		}
		servers = append(servers, server)
		if !r.Promoted {
			owners[server.Key] = r.Owner.Principal
		}
	}
	return servers, owners
}

func readArguments(raw []byte) map[string]string {
	arguments := map[string]string{}
	if json.Unmarshal(raw, &arguments) != nil {
		return nil
	}
	return arguments
}

// addedKey is the key of a server that a principal adds: the same for the same
// template and arguments, and telling nobody who it was.
func addedKey(principal, template string, arguments []byte) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%s", len(principal), principal, len(template), template, arguments))
	return template + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:7])
}

// Namespace is the namespace of such a server, within 20 characters.
func Namespace(template, key string) string {
	return build.AddedPrefix(template) + key[len(key)-build.AddedTail+1:]
}
