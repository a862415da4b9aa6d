package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/native/toolapi"
)

// Rules configure a tree. All paths are absolute.
type Rules struct {
	// Roots are the reachable folders, or single files.
	Roots []string
	// Write are the folders, roots or in roots, in which files may be changed; they
	// must exist.
	Write []string
	// Forbidden are files, and folders with their content, that are neither read nor
	// changed under any name, whether they exist or not.
	Forbidden []string
	// Globs are patterns of real paths that are also forbidden.
	Globs []string
	// Fixed are files and folders that may be read but not changed.
	Fixed []string
	// HardLinks permits files with several names; the other names may lie elsewhere.
	HardLinks bool
}

// Tree gives tools access to a part of the machine's files. It is safe for concurrent
// use. The zero Tree reaches nothing.
type Tree struct {
	roots     []root // the longest path first
	guard     guard
	hardLinks bool
}

// root is an open folder.
type root struct {
	path string // as it was configured
	real string
	dir  *os.Root
	only string // the only reachable name in it; empty: all
}

// Open opens the roots. Every one must exist.
func Open(rules Rules) (*Tree, error) {
	t := &Tree{guard: newGuard(rules.Forbidden, rules.Fixed), hardLinks: rules.HardLinks}
	var err error
	if t.guard.globs, err = newGlobs(rules.Globs); err != nil {
		return nil, err
	}
	for _, path := range rules.Write {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, fmt.Errorf("folder for writing %s: %w", path, err)
		}
		t.guard.write = append(t.guard.write, real)
	}
	for _, path := range rules.Roots {
		r, err := openRoot(path)
		if err != nil {
			t.Close()
			return nil, err
		}
		t.roots = append(t.roots, r)
	}
	slices.SortStableFunc(t.roots, func(a, b root) int { return len(b.path) - len(a.path) })
	return t, nil
}

func openRoot(path string) (root, error) {
	if !filepath.IsAbs(path) {
		return root{}, fmt.Errorf("root %q: it is not an absolute path", path)
	}
	path = filepath.Clean(path)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return root{}, fmt.Errorf("root %s: %w", path, err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return root{}, fmt.Errorf("root %s: %w", path, err)
	}
	r := root{path: path, real: real}
	if !info.IsDir() {
		r.path, r.real, r.only = filepath.Dir(path), filepath.Dir(real), filepath.Base(path)
		if filepath.Base(real) != r.only || r.real != resolved(r.path) {
			return root{}, fmt.Errorf("root %s: it is a symbolic link to a file; name the file itself, %s", path, real)
		}
	}
	if r.dir, err = os.OpenRoot(r.real); err != nil {
		return root{}, fmt.Errorf("root %s: %w", path, err)
	}
	return r, nil
}

// Close closes the roots.
func (t *Tree) Close() {
	for _, r := range t.roots {
		r.dir.Close()
	}
}

// Roots returns the reachable folders and files, for people.
func (t *Tree) Roots() []string {
	out := make([]string, 0, len(t.roots))
	for _, r := range t.roots {
		out = append(out, filepath.Join(r.path, r.only))
	}
	slices.Sort(out)
	return out
}

// find returns the root that contains a path, and the relative path.
func (t *Tree) find(path string) (*root, string, error) {
	if err := plain(path); err != nil {
		return nil, "", toolapi.Problemf("%s %s", err, t.allowed())
	}
	for i := range t.roots {
		r := &t.roots[i]
		if rel, ok := beneath(path, r.path); ok && (r.only == "" || rel == r.only) {
			return r, rel, nil
		}
	}
	return nil, "", toolapi.Problemf("%q is outside of what this tool reaches. %s", path, t.allowed())
}

// allowed describes the reachable paths.
func (t *Tree) allowed() string {
	if len(t.roots) == 0 {
		return "Nothing is allowed: no folder is configured."
	}
	return "Allowed: " + strings.Join(t.Roots(), ", ") + "."
}

// errChanged says that the opened file is not the one that was checked.
var errChanged = errors.New("it was changed while it was being opened")

// explain converts a system error for the caller.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	if problem, ok := errors.AsType[toolapi.Problem](err); ok {
		return problem
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return toolapi.Problemf("There is no %q.", path)
	case errors.Is(err, fs.ErrExist):
		return toolapi.Problemf("%q exists already.", path)
	case errors.Is(err, fs.ErrPermission):
		return toolapi.Problemf("The system does not permit it: %q.", path)
	case errors.Is(err, errChanged):
		return toolapi.Problemf("%q was changed while it was being opened; try again.", path)
	case escapes(err):
		return toolapi.Problemf("%q leads out of the allowed folders by a link.", path)
	}
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	if cause, ok := errors.AsType[*os.LinkError](err); ok {
		err = cause.Err
	}
	return toolapi.Problemf("%q: %v.", path, err)
}

// escapes tells whether a root has refused a path that leads out of it.
func escapes(err error) bool {
	return err != nil && strings.Contains(err.Error(), "path escapes from parent")
}
