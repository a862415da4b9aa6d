package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/internal/background"
)

// addRelations adds the phase of relationships: a SpiceDB, or the relationships in the
// file.
func (g *Gates) addRelations(_ context.Context, c *config.Config, around Surroundings) error {
	s := &c.Toolgate.SpiceDB
	switch {
	case s.Endpoint != "":
		next, err := NewRelations(c, around)
		if err != nil {
			return err
		}
		g.Relations = around.Relations.same(next)
		g.phases = append(g.phases, g.Relations.Phase)
	case s.Builtin != nil:
		var err error
		if g.Builtin, err = spicedb.NewBuiltin(s.Mapping, s.Builtin.Config(Places(c, "spicedb.builtin."))); err != nil {
			return err
		}
		g.phases = append(g.phases, g.Builtin)
	default:
		return nil
	}
	g.decides = true
	return nil
}

// relations is a phase that asks a SpiceDB, with its settings.
type relations struct {
	Phase    *spicedb.Phase
	settings spicedb.Settings
	ca       string        // hash of the CA file, which may change on its own
	stop     func()        // ends Run; nil before Run
	ended    chan struct{} // closed when Run has
}

// NewRelations makes the phase of a configuration. It neither connects nor starts a
// goroutine, so it may be dropped.
func NewRelations(c *config.Config, around Surroundings) (*relations, error) {
	s := &c.Toolgate.SpiceDB
	r := &relations{settings: *s}
	o := spicedb.Options{
		Endpoint: s.Endpoint, Token: s.Token.Reveal(), Mapping: s.Mapping, Strict: s.Strict, StrictFor: strictFor(s.StrictFor),
		CallTimeout: s.Timeouts.Call, ListTimeout: s.Timeouts.List, CacheEntries: s.Cache,
		OnChange: around.Decided, Logger: around.Log,
	}
	var err error
	if s.Zone != "" {
		if o.Zone, err = time.LoadLocation(s.Zone); err != nil {
			return nil, fmt.Errorf("%s: spicedb.zone: %w", c.Origin("spicedb.zone"), err)
		}
	}
	if s.TLS == nil || *s.TLS {
		if o.TLS, r.ca, err = Authorities(s.CA); err != nil {
			return nil, fmt.Errorf("%s: spicedb.ca: %w", c.Origin("spicedb.ca"), err)
		}
	}
	r.Phase, err = spicedb.New(o)
	return r, err
}

// Authorities returns how a server is verified: by the CAs in a PEM file, or by the
// system's. It also returns the hash of the file.
func Authorities(path string) (*tls.Config, string, error) {
	verify := &tls.Config{MinVersion: tls.VersionTLS12}
	if path == "" {
		return verify, "", nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	verify.RootCAs = x509.NewCertPool()
	if !verify.RootCAs.AppendCertsFromPEM(pem) {
		return nil, "", errors.New(path + " holds no certificate; write the PEM file of the authorities")
	}
	sum := sha256.Sum256(pem)
	return verify, hex.EncodeToString(sum[:]), nil
}

// strictFor tells for which requests no answers are cached; nil for none.
func strictFor(globs []string) func(*gate.Request) bool {
	if len(globs) == 0 {
		return nil
	}
	return func(r *gate.Request) bool {
		return slices.ContainsFunc(globs, func(g string) bool { return r.Names().Restricted(gate.Glob(g)) })
	}
}

// RelationsKeeper keeps the phase in force, with its connection and cache, across
// reloads that do not change its settings.
type RelationsKeeper struct {
	mu      sync.Mutex
	Current *relations // nil where none is in force
}

// same returns the phase in force if its settings equal those of next, else next. A
// nil keeper has none in force.
func (k *RelationsKeeper) same(next *relations) *relations {
	if k == nil {
		return next
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Current != nil && k.Current.ca == next.ca && reflect.DeepEqual(k.Current.settings, next.settings) {
		return k.Current
	}
	return next
}

// Use puts a phase in force, nil for none, and runs it until the context ends or
// another phase replaces it. The previous phase lives on while requests to it may be
// in flight. running counts all goroutines.
func (k *RelationsKeeper) Use(ctx context.Context, next *relations, running *background.Group, failed func(error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.Current
	if old == next {
		return
	}
	k.Current = next
	if next != nil {
		life, stop := context.WithCancel(ctx)
		next.stop, next.ended = stop, make(chan struct{})
		running.Go(func() {
			defer close(next.ended)
			if err := next.Phase.Run(life); err != nil && life.Err() == nil {
				failed(err)
			}
		})
	}
	if old == nil {
		return
	}
	running.Go(func() {
		select {
		case <-time.After(old.patience()):
		case <-ctx.Done():
		}
		old.close()
	})
}

// patience is longer than any request to the phase takes.
func (r *relations) patience() time.Duration {
	return time.Second + cmp.Or(r.settings.Timeouts.Call, time.Second) + cmp.Or(r.settings.Timeouts.List, time.Second)
}

// close ends the phase and its connection.
func (r *relations) close() {
	r.stop()
	<-r.ended
	_ = r.Phase.Close() // nobody uses the connection any more
}

// End closes the phase in force; its Run must have been told to end.
func (k *RelationsKeeper) End() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Current != nil {
		k.Current.close()
		k.Current = nil
	}
}

// Status is the health of the phase in force; nil where none is.
func (k *RelationsKeeper) Status() *spicedb.Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Current == nil {
		return nil
	}
	s := k.Current.Phase.Status()
	return &s
}
