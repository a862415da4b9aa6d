package declared

import (
	"errors"
	"slices"

	"github.com/toolgate/toolgate/internal/sandbox"
)

// withheld returns why a command does not run on this machine, nil if it does or there is
// no command. Other mistakes in its policy are reported by calls.
func withheld(c *Command) error {
	if c == nil {
		return nil
	}
	if err := refusal(c.Policy); errors.Is(err, sandbox.ErrMissing) {
		return err
	}
	return nil
}

// refusal and available ask this machine; tests replace them.
var (
	refusal   = sandbox.Refusal
	available = sandbox.Available
)

// caveat returns what the description of a command adds about its confinement: nothing
// if it is confined, or if the operator does not want it to be.
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

// Layers returns the layers that confine every command on this machine. It is false if
// there are no commands.
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
