// Package secrets is the command `secret`, and the secrets that a configuration names with
// ${keyring:NAME}.
package secrets

import (
	"os"

	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/keyring"
)

// Store returns the secrets of this user: all configurations share them.
func Store() (*keyring.Store, error) {
	root, err := statedir.Root()
	if err != nil {
		return nil, failure.New(failure.Config, err)
	}
	s, err := keyring.New(root, os.Getenv("TOOLGATE_KEYRING"))
	return s, failure.New(failure.Config, err)
}

// Reading returns a lookup for the secrets of one configuration, and a function that
// returns the files that change with what was looked up. A store that cannot be used is an
// error of those who use it.
func Reading() (lookup func(name string) (string, error), files func() []string) {
	store, err := Store()
	if err != nil {
		return func(string) (string, error) { return "", err }, func() []string { return nil }
	}
	r := store.Reading()
	return r.Secret, r.Files
}
