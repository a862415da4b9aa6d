package build

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

// Gates are the parts of a gateway that decide, made of one configuration.
type Gates struct {
	Chain     *gate.Chain
	Capsules  *capsule.Phase   // nil when none are configured
	Relations *relations       // nil when no SpiceDB is asked
	Policy    *opa.Phase       // nil when none is configured
	Builtin   *spicedb.Builtin // nil when the file does not say who is related to what
	Catalog   registry.Rules
	Examiner  *Examiner

	of      *config.Config
	phases  []gate.Phase
	decides bool          // some phase says who may do what; one in shadow mode does not
	Keepers []KeepingUpTo // of the phases that change by themselves
	log     *slog.Logger

	authenticated bool               // callers have to say who they are
	registry      *registry.Registry // nil without a gateway
}

// KeepingUpTo keeps a phase up to date until the context ends.
type KeepingUpTo struct {
	What string // for the log
	Run  func(context.Context) error
}

// Surroundings are what the gate of a gateway has besides its configuration.
type Surroundings struct {
	Log      *slog.Logger
	Copies   string                 // folder for the last good policy; empty keeps none
	Owners   map[string]string      // principals, by the server that is theirs alone
	Personal map[string]gate.Lister // servers at which callers sign in by themselves
	Decided  func()                 // is told so by a phase that knows it of itself; may be nil
	Reread   func()                 // is told that the policy is another; may be nil
	Failed   func(action string)    // is told that the policy could not decide; may be nil

	Registry  *registry.Registry                            // lives on from one configuration to the next; nil without a gateway
	Relations *RelationsKeeper                              // keeps the phase in force; nil has none
	Schemas   *schema.Checker                               // of the gateway's whole life; nil is a new one
	Mode      func() governance.Mode                        // in force; nil is NORMAL
	Own       []string                                      // files and folders that belong to the gateway
	Native    func(server, tool string) governance.Operator // what is known of native tools; nil knows none
}

// NewGates makes the gate of a configuration, phase by phase in the order in
// which they are asked. Without authentication and rules everyone is local and
// may do everything; with authentication, something must decide, or it must
// have been said that nothing does.
func NewGates(ctx context.Context, c *config.Config, authenticated bool, around Surroundings) (*Gates, error) {
	if around.Log == nil {
		around.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gates{of: c, log: around.Log, authenticated: authenticated}
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
	g.Chain = gate.NewChain(g.phases...)
	if err := g.addExaminer(c, authenticated, around); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	return g, nil
}

// Run keeps up with what the gate is made of until the context ends.
func (g *Gates) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, k := range g.Keepers {
		running.Go(func() {
			if err := k.Run(ctx); err != nil && ctx.Err() == nil {
				g.log.Error("a phase of the gate is not kept up with any more", "phase", k.What, "err", err)
			}
		})
	}
	running.Wait()
}
