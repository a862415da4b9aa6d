package statedir

import (
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/store"
)

// StoreForReading returns the options to read the store of a configuration.
func StoreForReading(c *config.Config) (store.Options, error) {
	o := store.Options{ReadOnly: true}
	path, isFile := strings.CutPrefix(c.Toolgate.Store, "sqlite:")
	switch {
	case !isFile:
		o.URL = c.Toolgate.Store
	case path != "":
		o.Path = path
	default:
		state, err := Find(c.Path)
		if err != nil {
			return o, err
		}
		o.Path = filepath.Join(state.Path, "store.db")
	}
	return o, nil
}
