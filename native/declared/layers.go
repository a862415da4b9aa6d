package declared

import (
	"slices"

	"github.com/toolgate/toolgate/internal/sandbox"
)

// Layers returns what confines each of the commands on this machine: of what only
// some have, nothing. It is false where there are no commands.
func (b *Backend) Layers() (layers []string, commands bool) {
	for _, t := range b.tools {
		if t.Command == nil {
			continue
		}
		var own []string
		if l, err := sandbox.Available(t.Command.Policy); err == nil { // else it does not run at all
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
