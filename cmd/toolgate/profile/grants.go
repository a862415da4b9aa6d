package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// grants are what a trial gives a server beside what all programs have.
type grants struct {
	read, run []string
	network   bool
	runOwn    bool // what the server writes into its private folder
}

func (g *grants) clone() grants {
	return grants{slices.Clone(g.read), slices.Clone(g.run), g.network, g.runOwn}
}

func (g *grants) drop(path string) {
	is := func(other string) bool { return other == path }
	g.read, g.run = slices.DeleteFunc(g.read, is), slices.DeleteFunc(g.run, is)
}

// has tells whether a path is granted.
func (g *grants) has(path string, run bool) bool {
	list := g.run
	if !run {
		list = append(slices.Clone(g.read), g.run...)
	}
	return slices.ContainsFunc(list, func(folder string) bool { return inside(path, folder) })
}

// add grants a path, and tells whether that is more than before.
func (g *grants) add(path string, run bool) bool {
	if g.has(path, run) {
		return false
	}
	if run {
		g.drop(path)
		g.run = append(g.run, path)
	} else {
		g.read = append(g.read, path)
	}
	return true
}

// String says what is granted.
func (g grants) String() string {
	var parts []string
	for _, list := range []struct {
		what  string
		paths []string
	}{{"read", g.read}, {"run", g.run}} {
		if len(list.paths) > 0 {
			parts = append(parts, list.what+" "+strings.Join(list.paths, ", "))
		}
	}
	if g.network {
		parts = append(parts, "network full")
	}
	if g.runOwn {
		parts = append(parts, "run_own")
	}
	if len(parts) == 0 {
		return "an empty sandbox"
	}
	return fmt.Sprintf("a sandbox that grants %s", strings.Join(parts, "; "))
}

func sorted(paths []string) []string {
	out := slices.Clone(paths)
	slices.Sort(out)
	return slices.Compact(out)
}

// system are the folders of the system's libraries and programs, which every sandbox may
// read or run.
var system = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/bin", "/usr/local/lib",
}

// shared are folders of the system in each of whose folders is one program's data.
var shared = []string{"/usr/share", "/usr/local/share", "/usr/local", "/opt"}

// systemFolders are the programs that a sandbox may run which names none.
func systemFolders() []string {
	return slices.DeleteFunc([]string{"/usr/local/bin", "/usr/bin", "/bin"}, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}

// inside tells whether a path is a folder or in it.
func inside(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func home() string {
	dir, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return dir
}
