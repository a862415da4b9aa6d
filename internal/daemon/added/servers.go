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
	"github.com/toolgate/toolgate/internal/daemon/follow"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// Options are the parts of a running gateway that the added servers need. All are
// required.
type Options struct {
	Log   *slog.Logger
	Store *store.Dynamic
	// Config returns the settings in force.
	Config func() *config.Config
	// Apply serves the current added servers if load reports a change. Calls run one
	// after the other.
	Apply func(ctx context.Context, load func(context.Context) (changed bool, err error)) error
	// Status returns the status of a running server.
	Status func(server string) (status mcp.Status, runs bool)
	// Settle waits until the servers' lists are in the catalog.
	Settle func(ctx context.Context)
}

// Servers are the added servers. It implements [enable.Catalog], and is safe for
// concurrent use. Make it with [New]; [Servers.Run] keeps it up to date with the
// store.
type Servers struct {
	o     Options
	chain atomic.Pointer[gate.Chain] // decides who may add what; nil denies
	rows  *follow.Follower

	mu         sync.Mutex
	list       []store.DynamicRecord
	generation int64
}

// New returns the added servers of a gateway, with none loaded yet.
func New(o Options) *Servers {
	s := &Servers{o: o}
	s.rows = follow.New(follow.Options{
		Load: s.Load, Apply: o.Apply, Unserved: s.unserved,
		Late: func(err error) { o.Log.Error("servers that were added or removed are not served yet", "err", err) },
	})
	return s
}

// Use sets the chain that decides who may add which servers.
func (s *Servers) Use(chain *gate.Chain) { s.chain.Store(chain) }

// StoreChanged reports that the added servers in the store have changed.
func (s *Servers) StoreChanged() { s.rows.Changed() }

// records returns the added servers as last read.
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
)

// Load reads the added servers and tells whether they have changed. If the store was
// unreachable at the start, there are none until it answers.
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

// Run applies changes by this gateway, and by others that share the store, until the
// context ends.
func (s *Servers) Run(ctx context.Context) error { return s.rows.Run(ctx) }

// unserved records that the loaded servers could not be served.
func (s *Servers) unserved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation = notServed
}

// notServed is the generation while the added servers could not be served.
const notServed = -1

// Beside returns the servers to run: the configured ones except templates, and the
// added ones. owners are the principals of servers that only one caller may use.
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
		server.Added = true
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

// addedKey returns the key of a server that a principal adds. The same template and
// arguments give the same key, which does not reveal the principal.
func addedKey(principal, template string, arguments []byte) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%s", len(principal), principal, len(template), template, arguments))
	return template + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:7])
}

// Namespace returns the namespace of an added server, of at most 20 characters.
func Namespace(template, key string) string {
	return build.AddedPrefix(template) + key[len(key)-build.AddedTail+1:]
}
