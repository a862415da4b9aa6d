package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/toolgate/toolgate/config"
)

// maxPolicyFiles is how many files of a policy are looked at.
const maxPolicyFiles = 10_000

// onlyOwn refuses a configuration that every user of this machine may change. Its
// files choose command lines and rules, so whoever may write them runs programs with
// the rights of the gateway. The policy counts, and so do the folders: who may write
// one may replace what is in it, unless it is sticky as /tmp is. Groups are left to
// the operator, because on many systems each user has one alone. The permissions of
// Windows are not shown in the mode; there nothing is looked at.
func onlyOwn(c *config.Config) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	var errs []error
	seen := make(map[string]bool)
	look := func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		info, err := os.Stat(path)
		if err != nil { // what is missing is said where it is read
			return
		}
		sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
		if mode := info.Mode().Perm(); mode&0o002 != 0 && !sticky {
			errs = append(errs, fmt.Errorf("%s decides what runs, and every user of this machine may change it (mode %#o); run `chmod o-w %s`", path, mode, path))
		}
	}
	for _, path := range c.Files {
		look(path)
		look(filepath.Dir(path))
	}
	if policy := c.Toolgate.OPA.Path; policy != "" {
		look(filepath.Dir(policy))
		left := maxPolicyFiles
		_ = filepath.WalkDir(policy, func(path string, _ fs.DirEntry, err error) error {
			if left--; left < 0 {
				return fs.SkipAll
			}
			if err == nil {
				look(path)
			}
			return nil // what cannot be read is said where the policy is loaded
		})
	}
	return errors.Join(errs...)
}
