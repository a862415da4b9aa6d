package build

import (
	"fmt"
	"sync"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/group"
)

// KeptOff is what the programs of one configuration are kept off: the gateway's own
// files, and what servers and tools are started from. What takes work to find is found
// when it is first asked for, and once: a configuration that is applied later has
// another one, as there may be something else by then.
type KeptOff struct {
	Own []string
	// Python is the interpreter of native.code with the folders of its modules, empty
	// where that is not configured.
	Python func() (path string, library []string)
	// Started are what things are started from.
	Started func() []string
}

// KeepOff is what the programs of a configuration are kept off. own are the gateway's
// own files.
func KeepOff(c *config.Config, own []string) *KeptOff {
	k := &KeptOff{Own: own, Python: sync.OnceValues(func() (string, []string) {
		if code := c.Toolgate.Native.Code; code != nil {
			return RealPython(codePython(code))
		}
		return "", nil
	})}
	return k.With(c)
}

// gateway is what groups of tools learn of it.
func (k *KeptOff) gateway() *group.Gateway {
	return &group.Gateway{Version: version.Version, Own: k.Own, Started: k.Started, Python: k.Python}
}

// With is the same for a configuration that differs in its declared tools alone.
func (k *KeptOff) With(c *config.Config) *KeptOff {
	return &KeptOff{Own: k.Own, Python: k.Python, Started: sync.OnceValue(func() []string { return startedFrom(c, k.Python) })}
}

// check refuses folders for writing that hold what something is started from, or lie
// in it: whoever can write that chooses what runs.
func (k *KeptOff) check(write []string) error {
	if len(write) == 0 {
		return nil
	}
	for _, from := range k.Started() {
		for _, path := range write {
			for _, form := range []string{path, realPath(path)} {
				if inside(from, form) || inside(form, from) {
					return fmt.Errorf("write: %s would let a program of the configuration change %s, from which a server or a tool is started; move one of them", path, from)
				}
			}
		}
	}
	return nil
}

// CheckTools is check for the folders that declared tools may write.
func (k *KeptOff) CheckTools(tools []declared.Settings) error {
	for i := range tools {
		if err := k.check(tools[i].Write); err != nil {
			return fmt.Errorf("the tool %s: %w", tools[i].Name, err)
		}
	}
	return nil
}
