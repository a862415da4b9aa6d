package files

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/native/toolapi"
)

// guard holds the rules for paths that are out of reach.
type guard struct {
	forbidden []protected // neither read nor changed
	fixed     []protected // read, but not changed
	globs     []glob      // neither read nor changed
	write     []string    // real folders in which files may be changed
}

// protected is a file, or a folder with its content, whether it exists or not.
type protected struct {
	path   string   // as it was configured
	folded []string // the paths to it, folded
}

// system are folders with pseudo files, through which processes and devices show
// themselves.
var system = []string{"/proc", "/sys", "/dev"}

func newGuard(forbidden, fixed []string) guard {
	return guard{forbidden: protect(slices.Concat(system, forbidden)), fixed: protect(fixed)}
}

func protect(paths []string) []protected {
	out := make([]protected, 0, len(paths))
	for _, path := range paths {
		path = filepath.Clean(path)
		p := protected{path: path, folded: []string{fold(path)}}
		if real := fold(resolved(path)); real != p.folded[0] {
			p.folded = append(p.folded, real)
		}
		out = append(out, p)
	}
	return out
}

// resolved returns the real path, as far as it exists.
func resolved(path string) string {
	for head, tail := path, ""; ; head, tail = filepath.Dir(head), filepath.Join(filepath.Base(head), tail) {
		if real, err := filepath.EvalSymlinks(head); err == nil {
			return filepath.Join(real, tail)
		}
		if head == filepath.Dir(head) {
			return path
		}
	}
}

// readable refuses an open file or folder that may not be read, by its real path.
func (g *guard) readable(real string, info os.FileInfo) error {
	for i, folded := 0, fold(real); i < len(g.globs); i++ {
		if g.globs[i].matches(folded) {
			return toolapi.Problemf("%q is forbidden by the pattern %s.", real, g.globs[i].text)
		}
	}
	return g.check(g.forbidden, real, info, false)
}

// changeable refuses a path that may not be changed or replaced; info is nil where
// nothing exists.
func (g *guard) changeable(real string, info os.FileInfo) error {
	if !slices.ContainsFunc(g.write, func(folder string) bool {
		rel, in := beneath(real, folder)
		return in && rel != "."
	}) {
		return toolapi.Problemf("%q may not be changed. Files may be changed in: %s.", real, g.writable())
	}
	if err := g.readable(real, info); err != nil {
		return err
	}
	if err := g.check(g.forbidden, real, info, true); err != nil {
		return err
	}
	return g.check(g.fixed, real, info, true)
}

func (g *guard) writable() string {
	if len(g.write) == 0 {
		return "no folder, as none is configured for writing"
	}
	return strings.Join(g.write, ", ")
}

// check compares a file or folder with a list: by the names in its path, and by the
// identities of itself and the folders above it, which other names and other mounts do
// not change. For a change, it also must not contain anything protected.
func (g *guard) check(list []protected, real string, info os.FileInfo, change bool) error {
	if len(list) == 0 {
		return nil
	}
	above, err := ancestry(real, info)
	if err != nil {
		return err
	}
	folded := fold(real)
	for i := range list {
		p := &list[i]
		hit := slices.ContainsFunc(p.folded, func(f string) bool {
			_, in := beneath(folded, f)
			_, over := beneath(f, folded)
			return in || over && change
		})
		if !hit {
			its, err := os.Stat(p.path)
			hit = err == nil && slices.ContainsFunc(above, func(a os.FileInfo) bool { return os.SameFile(a, its) })
		}
		if hit {
			return g.refusal(p, real, change)
		}
	}
	return nil
}

// ancestry returns the identities of a file and the folders above it.
func ancestry(real string, info os.FileInfo) ([]os.FileInfo, error) {
	var out []os.FileInfo
	if info != nil {
		out = append(out, info)
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		above, err := os.Lstat(dir)
		if err != nil {
			return nil, explain(real, err)
		}
		if out = append(out, above); dir == filepath.Dir(dir) {
			return out, nil
		}
	}
}

func (g *guard) refusal(p *protected, real string, change bool) error {
	switch {
	case slices.Contains(system, p.path):
		return toolapi.Problemf("%q is of the system, in %s, and out of reach of every tool.", real, p.path)
	case slices.ContainsFunc(g.fixed, func(f protected) bool { return f.path == p.path }):
		return toolapi.Problemf("%q may be read but not changed: servers of this gateway are started from %s.", real, p.path)
	case change:
		return toolapi.Problemf("%q is forbidden, or holds what is: the gateway's own files and those that its configuration names may not be changed by a tool.", real)
	}
	return toolapi.Problemf("%q is forbidden: the gateway's own files and those that its configuration names are out of reach of every tool.", real)
}
