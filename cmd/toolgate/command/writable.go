package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
)

// maxPolicyFiles is the maximum number of policy files to check.
const maxPolicyFiles = 10_000

// onlyOwn refuses a configuration that every user of this machine may change. Its files
// choose command lines and rules, so whoever may write them can run programs with the
// rights of the gateway. It checks the policy and the folders too: whoever may write a
// folder may replace what is in it, unless it is sticky like /tmp. Group permissions are
// left to the operator, because on many systems each user has a group of their own. On
// Windows nothing is checked, because the mode does not show permissions there.
func onlyOwn(c *config.Config) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	w := writable{seen: make(map[string]bool)}
	t := &c.Toolgate
	for _, path := range append(slices.Clone(c.Files), t.OPA.BundleKey, t.Registry.Seed) {
		w.file(path)
	}
	w.policy(t.OPA.Path)
	return errors.Join(w.errs...)
}

// writable collects what every user of this machine may change.
type writable struct {
	seen map[string]bool
	errs []error
}

// look checks one file or folder.
func (w *writable) look(path string) {
	if w.seen[path] {
		return
	}
	w.seen[path] = true
	info, err := os.Stat(path)
	if err != nil { // whoever reads the file reports that it is missing
		return
	}
	sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
	if mode := info.Mode().Perm(); mode&0o002 != 0 && !sticky {
		w.errs = append(w.errs, fmt.Errorf("%s decides what runs, and every user of this machine may change it (mode %#o); run `chmod o-w %s`", path, mode, path))
	}
}

// file checks a file and its folder, and if it is a link, its target. It returns the real
// path of the file.
func (w *writable) file(path string) string {
	if path == "" {
		return ""
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	for _, path := range []string{path, target} {
		w.look(path)
		w.look(filepath.Dir(path))
	}
	return target
}

// policy checks everything that a policy may be read from. Folders whose names begin with
// a dot are not read.
func (w *writable) policy(path string) {
	if path == "" {
		return
	}
	root := w.file(path)
	left := maxPolicyFiles
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, _ error) error {
		switch left--; {
		case d == nil: // it cannot be read, which is reported when the policy is loaded
			return nil
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case left < 0:
			w.errs = append(w.errs, fmt.Errorf("%s has more than %d files; put the policy into a folder of its own", root, maxPolicyFiles))
			return fs.SkipAll
		}
		w.file(path)
		return nil
	})
}
