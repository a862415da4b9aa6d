package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/internal/failure"
)

// gates are the parts of a gateway that decide, made of one configuration.
type gates struct {
	chain     *gate.Chain
	capsules  *capsule.Phase   // nil when none are configured
	relations *relations       // nil when no SpiceDB is asked
	Policy    *opa.Phase       // nil when none is configured
	builtin   *spicedb.Builtin // nil when the file does not say who is related to what
	Catalog   registry.Settings
	examiner  *examiner

	of      *config.Config
	phases  []gate.Phase
	decides bool          // some phase says who may do what; one in shadow mode does not
	keepers []keepingUpTo // of the phases that change by themselves
	log     *slog.Logger

	authenticated bool               // callers have to say who they are
	registry      *registry.Registry // nil without a gateway
}

// keepingUpTo keeps a phase up to date until the context ends.
type keepingUpTo struct {
	what string
	run  func(context.Context) error
}

// Surroundings are what the gate of a gateway has besides its configuration.
type Surroundings struct {
	Log      *slog.Logger
	copies   string                 // folder for the last good policy; empty keeps none
	owners   map[string]string      // principals, by the server that is theirs alone
	personal map[string]gate.Lister // servers at which callers sign in by themselves
	decided  func()                 // is told so by a phase that knows it of itself; may be nil
	reread   func()                 // is told that the policy is another; may be nil
	failed   func(action string)    // is told that the policy could not decide; may be nil

	registry  *registry.Registry                            // lives on from one configuration to the next; nil without a gateway
	relations *relationsKeeper                              // keeps the phase in force; nil has none
	schemas   *schema.Checker                               // of the gateway's whole life; nil is a new one
	mode      func() governance.Mode                        // in force; nil is NORMAL
	own       []string                                      // files and folders that belong to the gateway
	native    func(server, tool string) governance.Operator // what is known of native tools; nil knows none
}

// NewGates makes the gate of a configuration, phase by phase in the order in
// which they are asked. Without authentication and rules everyone is local and
// may do everything; with authentication, something must decide, or it must
// have been said that nothing does.
func NewGates(ctx context.Context, c *config.Config, authenticated bool, around Surroundings) (*gates, error) {
	if around.Log == nil {
		around.Log = slog.New(slog.DiscardHandler)
	}
	g := &gates{of: c, log: around.Log, authenticated: authenticated}
	for _, add := range []func(context.Context, *config.Config, Surroundings) error{
		g.addRegistry, g.addOwners, g.addPersonal, g.addCapsules, g.addRelations, g.addPolicy,
	} {
		if err := add(ctx, c, around); err != nil {
			return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
		}
	}
	if !g.decides {
		if authenticated && !c.Toolgate.Gate.Open {
			return nil, failure.Newf(failure.Config, "%s: authentication is configured, but nothing decides who may call what; "+
				"write capsules, spicedb or opa, or `gate: { open: true }` under toolgate if everyone known may call everything", c.Path)
		}
		g.phases = append([]gate.Phase{gate.Open{}}, g.phases...)
	}
	g.chain = gate.NewChain(g.phases...)
	if err := g.addExaminer(c, authenticated, around); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	return g, nil
}

// run keeps up with what the gate is made of until the context ends.
func (g *gates) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, k := range g.keepers {
		running.Go(func() {
			if err := k.run(ctx); err != nil && ctx.Err() == nil {
				g.log.Error("a phase of the gate is not kept up with any more", "phase", k.what, "err", err)
			}
		})
	}
	running.Wait()
}
