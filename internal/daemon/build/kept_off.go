package build

import (
	"fmt"
	"sync"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/group"
)

// KeptOff are the files that the programs of one configuration may not change or read:
// the gateway's own files, and the files that servers and tools are started from.
// Expensive parts are computed once, on first use. A later configuration gets its own
// value, because the files may have changed by then.
type KeptOff struct {
	Own []string
	// Python returns the interpreter of native.code with the folders of its modules,
	// empty where native.code is not configured.
	Python func() (path string, library []string)
	// Started returns the files that servers and tools are started from.
	Started func() []string
}

// KeepOff computes the protected files of a configuration. own are the gateway's own
// files.
func KeepOff(c *config.Config, own []string) *KeptOff {
	k := &KeptOff{Own: own, Python: sync.OnceValues(func() (string, []string) {
		if code := c.Toolgate.Native.Code; code != nil {
			return RealPython(codePython(code))
		}
		return "", nil
	})}
	return k.With(c)
}

// gateway returns the view of it that tool groups get.
func (k *KeptOff) gateway() *group.Gateway {
	return &group.Gateway{Version: version.Version, Own: k.Own, Started: k.Started, Python: k.Python}
}

// With returns a copy for a configuration that differs only in its declared tools.
func (k *KeptOff) With(c *config.Config) *KeptOff {
	return &KeptOff{Own: k.Own, Python: k.Python, Started: sync.OnceValue(func() []string { return startedFrom(c, k.Python) })}
}

// check refuses writable folders that contain files from which something is started,
// or lie inside such a folder: writing there means choosing what runs.
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

// CheckTools checks the writable folders of declared tools.
func (k *KeptOff) CheckTools(tools []declared.Settings) error {
	for i := range tools {
		if err := k.check(tools[i].Write); err != nil {
			return fmt.Errorf("the tool %s: %w", tools[i].Name, err)
		}
	}
	return nil
}
