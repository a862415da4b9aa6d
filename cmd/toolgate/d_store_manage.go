package main

import (
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/store"
)

// storeForReading says how to read the store of a configuration.
func storeForReading(c *config.Config) (store.Options, error) {
	o := store.Options{ReadOnly: true}
	path, isFile := strings.CutPrefix(c.Toolgate.Store, "sqlite:")
	switch {
	case !isFile:
		o.URL = c.Toolgate.Store
	case path != "":
		o.Path = path
	default:
		state, err := findState(c.Path)
		if err != nil {
			return o, err
		}
		o.Path = filepath.Join(state.path, "store.db")
	}
	return o, nil
}
