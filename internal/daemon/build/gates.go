package build

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/internal/failure"
)

// Gates are the deciding parts of a gateway, made from one configuration.
type Gates struct {
	Chain     *gate.Chain
	Capsules  *capsule.Phase   // nil when none are configured
	Relations *relations       // nil when no SpiceDB is asked
	Policy    *opa.Phase       // nil when none is configured
	Builtin   *spicedb.Builtin // nil when the file has no relationships
	Steps     *composite.Phase // nil when no tool calls others
	Catalog   registry.Rules
	Examiner  *Examiner

	of      *config.Config
	phases  []gate.Phase
	decides bool          // a phase grants access; a phase in shadow mode does not count
	Keepers []KeepingUpTo // for the phases that change by themselves
	log     *slog.Logger

	authenticated bool               // callers must authenticate
	registry      *registry.Registry // nil without a gateway
}

// KeepingUpTo keeps a phase up to date until the context ends.
type KeepingUpTo struct {
	What string // for the log
	Run  func(context.Context) error
}

// Surroundings are the inputs of a gate besides its configuration.
type Surroundings struct {
	Log    *slog.Logger
	Copies string // folder for the last good policy; empty: none is kept
	// Owners has the owning principal of each personal server.
	Owners map[string]string
	// ToolOwners has the owning principal of each namespace of registered tools.
	ToolOwners map[string]string
	Personal   map[string]gate.Lister // servers to which callers sign in themselves
	Decided    func()                 // called by a phase that notices a change of its decisions; may be nil
	Reread     func()                 // called when the policy has changed; may be nil
	Failed     func(action string)    // called when the policy could not decide; may be nil

	Registry  *registry.Registry                            // shared by successive configurations; nil without a gateway
	Relations *RelationsKeeper                              // keeps the phase in force; nil has none
	Schemas   *schema.Checker                               // shared for the gateway's whole life; nil: a new one
	Mode      func() governance.Mode                        // in force; nil is NORMAL
	Own       []string                                      // files and folders that belong to the gateway
	Native    func(server, tool string) governance.Operator // statements about native tools; nil: none
}

// NewGates makes the gate of a configuration, phase by phase in the order of
// evaluation. Without authentication and rules, every caller is local and may do
// everything. With authentication, a phase must grant access, or gate.open must be
// set.
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
	g.addSteps(c)
	g.Chain = gate.NewChain(g.phases...)
	if err := g.addExaminer(c, authenticated, around); err != nil {
		return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
	}
	return g, nil
}

// Run keeps the phases up to date until the context ends.
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
