package declared

import (
	"errors"
	"slices"

	"github.com/toolgate/toolgate/internal/sandbox"
)

// withheld is why a command does not run on this machine, nil where it does and where
// there is none. What else is wrong with its policy, its calls say.
func withheld(c *Command) error {
	if c == nil {
		return nil
	}
	if err := refusal(c.Policy); errors.Is(err, sandbox.ErrMissing) {
		return err
	}
	return nil
}

// refusal and available ask this machine; tests ask others.
var (
	refusal   = sandbox.Refusal
	available = sandbox.Available
)

// caveat is what the description of a command says of how it runs on this machine:
// nothing where it is confined, or where the operator wants it free.
func caveat(c *Command) string {
	if c == nil || c.Policy.Mode != sandbox.Auto {
		return ""
	}
	l, err := available(c.Policy)
	if err != nil {
		return "" // it does not run at all
	}
	return l.Caveat()
}

// Layers returns what confines each of the commands on this machine: of what only
// some have, nothing. It is false where there are no commands.
func (b *Backend) Layers() (layers []string, commands bool) {
	for _, t := range b.tools {
		if t.Command == nil {
			continue
		}
		var own []string
		if l, err := available(t.Command.Policy); err == nil { // else it does not run at all
			for _, layer := range l.InForce {
				own = append(own, string(layer))
			}
		}
		if !commands {
			layers, commands = own, true
			continue
		}
		layers = slices.DeleteFunc(layers, func(layer string) bool { return !slices.Contains(own, layer) })
	}
	return layers, commands
}
