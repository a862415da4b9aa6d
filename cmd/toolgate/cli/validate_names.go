package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/references"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
)

// checkNames holds the names in a configuration against what is known of what
// its gateway offers.
func checkNames(ctx context.Context, c *config.Config, m references.Mentioned) error {
	inv, err := references.Known(ctx, c)
	if err != nil {
		note("warning: names are checked by the file alone, because what the gateway offers is not known: %v", err)
		inv = references.NewInventory(c)
	}
	if len(inv.Servers) == 0 && len(inv.Offers) == 0 {
		return nil // which has a warning of its own
	}
	var problems []error
	for _, p := range m.Dangling(inv) {
		problems = append(problems, errors.New(build.ProblemText(p)))
	}
	return failure.New(failure.Config, errors.Join(problems...))
}

// checkSeed refuses a seed that names what no server offers, as far as that is
// known from earlier runs.
func checkSeed(ctx context.Context, c *config.Config, seed *registry.Seed) error {
	if seed == nil {
		return nil
	}
	records, err := statedir.KnownCatalog(ctx, c)
	if err != nil {
		note("warning: what the seed names is not checked: %v", err)
		return nil
	}
	seen := make(map[string]bool)
	for i := range records {
		seen[records[i].Server] = true
	}
	all := true // servers have been seen
	for i := range c.Servers {
		all = all && (seen[c.Servers[i].Key] || c.Servers[i].Disabled)
	}
	var problems []error
	for _, e := range seed.Unmatched(records) {
		if seen[e.Server] || e.Server == "" && all {
			problems = append(problems, fmt.Errorf("%s: no server offers %s; `toolgate catalog ls` lists what there is", e.At.Place(), &e))
		}
	}
	return failure.New(failure.Config, errors.Join(problems...))
}
