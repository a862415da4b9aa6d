package daemon

import (
	"fmt"
	"sync"

	"github.com/toolgate/toolgate/config"
)

// keptOff is what the programs of one configuration are kept off: the gateway's own
// files, and what servers and tools are started from. What takes work to find is found
// when it is first asked for, and once: a configuration that is applied later has
// another one, as there may be something else by then.
type keptOff struct {
	own []string
	// python is the interpreter of native.code with the folders of its modules, empty
	// where that is not configured.
	python func() (path string, library []string)
	// Started are what things are started from.
	Started func() []string
}

// KeepOff is what the programs of a configuration are kept off. own are the gateway's
// own files.
func KeepOff(c *config.Config, own []string) *keptOff {
	k := &keptOff{own: own, python: sync.OnceValues(func() (string, []string) {
		if code := c.Toolgate.Native.Code; code != nil {
			return RealPython(codePython(code))
		}
		return "", nil
	})}
	return k.with(c)
}

// with is the same for a configuration that differs in its declared tools alone.
func (k *keptOff) with(c *config.Config) *keptOff {
	return &keptOff{own: k.own, python: k.python, Started: sync.OnceValue(func() []string { return startedFrom(c, k.python) })}
}

// check refuses folders for writing that hold what something is started from, or lie
// in it: whoever can write that chooses what runs.
func (k *keptOff) check(write []string) error {
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

// checkTools is check for the folders that declared tools may write.
func (k *keptOff) checkTools(tools []config.DeclaredTool) error {
	for i := range tools {
		if err := k.check(tools[i].Write); err != nil {
			return fmt.Errorf("the tool %s: %w", tools[i].Name, err)
		}
	}
	return nil
}
