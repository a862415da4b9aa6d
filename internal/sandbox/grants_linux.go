//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/toolgate/toolgate/internal/sandbox/shim"
)

// base is what programs need to start: shared libraries and what these read. Missing
// paths are skipped.
var base = []struct {
	access int
	paths  []string
}{
	{shim.Read, []string{
		"/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld-musl-x86_64.path", "/etc/ld-musl-aarch64.path",
		"/etc/alternatives", "/etc/localtime", "/usr/share/zoneinfo", "/usr/share/locale",
		"/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
	}},
	{shim.Run, []string{"/lib/ld-*.so*", "/lib64/ld-*.so*"}}, // the loader of dynamic programs
	{shim.Device, []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random"}},
}

// online is what programs need in addition to use a network.
var online = []string{
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
	"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
}

// system are the folders of the root that show the machine and hold no files. A grant
// of the root does not include them.
var system = []string{"dev", "proc", "run", "sys"}

// maxLinks is how many symbolic links a path may contain.
const maxLinks = 40

// grants is what a policy allows in the file system, by real paths.
type grants struct {
	access map[string]int
	links  map[string]string
}

// grantsOf returns what p allows. program and temp are granted as well.
func grantsOf(p Policy, program, temp string) (*grants, error) {
	g := &grants{access: map[string]int{}, links: map[string]string{}}
	for _, b := range base {
		for _, pattern := range b.paths {
			found, err := filepath.Glob(pattern)
			if err != nil {
				return nil, err
			}
			for _, path := range found {
				if _, err := g.add(path, b.access, nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, err
				}
			}
		}
	}
	if p.Network == FullNetwork {
		for _, path := range online {
			if _, err := g.add(path, shim.Read, nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	writable, err := allReal(p.Write)
	if err != nil {
		return nil, err
	}
	if slices.Contains(writable, "/") {
		return nil, errors.New("the root cannot be granted for writing")
	}
	given := map[int][]string{} // real paths by access
	for _, list := range []struct {
		access int
		paths  []string
	}{{shim.Read, p.Read}, {shim.Write, p.Write}, {shim.Run, p.Run}, {shim.Run, []string{program}}} {
		for _, path := range list.paths {
			if path == "" { // there is no program, or it has no name
				continue
			}
			real, err := g.add(path, list.access, writable)
			if err != nil {
				return nil, granting(path, err)
			}
			given[list.access] = append(given[list.access], real)
		}
	}
	if p.Check != nil {
		if err := p.Check(given[shim.Read], given[shim.Write], given[shim.Run]); err != nil {
			return nil, err
		}
	}
	if temp != "" {
		access := shim.Write
		if p.TempRun {
			access |= shim.Run
		}
		if _, err := g.add(temp, access, nil); err != nil {
			return nil, granting(temp, err)
		}
	}
	return g, nil
}

// allReal returns the real paths of some paths.
func allReal(paths []string) ([]string, error) {
	out := make([]string, len(paths))
	for i, path := range paths {
		real, _, err := resolve(path)
		if err != nil {
			return nil, granting(path, err)
		}
		out[i] = real
	}
	return out, nil
}

func granting(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist: what a policy grants must be there", path)
	}
	return fmt.Errorf("granting %s: %w", path, err)
}

// add grants one path and returns its real one. Links in writable folders are refused: an
// earlier confined process could have created one to be granted more the next time.
func (g *grants) add(path string, access int, writable []string) (string, error) {
	real, links, err := resolve(path)
	if err != nil {
		return "", err
	}
	for _, l := range links {
		for _, w := range writable {
			if shim.Inside(l.Path, w) && !shim.Inside(real, w) {
				return "", fmt.Errorf("the link %s leads out of %s, which may be written", l.Path, w)
			}
		}
		g.links[l.Path] = l.Target
	}
	if names := strings.Split(real, "/"); names[1] == "proc" && len(names) > 2 && strings.Trim(names[2], "0123456789") == "" {
		return "", errors.New("it is about one process")
	}
	if real != "/" {
		g.access[real] |= access
		return real, nil
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if slices.Contains(system, e.Name()) {
			continue
		}
		if _, err := g.add("/"+e.Name(), access, writable); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return real, nil
}

// contains reports whether a real path is granted.
func (g *grants) contains(real string) bool {
	for path := range g.access {
		if shim.Inside(real, path) {
			return true
		}
	}
	return false
}

// list returns the grants in the order of their paths, and the links.
func (g *grants) list() ([]shim.Grant, []shim.Link) {
	var list []shim.Grant
	for path, access := range g.access {
		list = append(list, shim.Grant{Path: path, Access: access})
	}
	slices.SortFunc(list, func(a, b shim.Grant) int { return cmp.Compare(a.Path, b.Path) })
	var links []shim.Link
	for path, target := range g.links {
		links = append(links, shim.Link{Path: path, Target: target})
	}
	slices.SortFunc(links, func(a, b shim.Link) int { return cmp.Compare(a.Path, b.Path) })
	return list, links
}

// resolve returns the real path of an absolute path, and the links in it.
func resolve(path string) (string, []shim.Link, error) {
	var links []shim.Link
	real, rest := "/", strings.Split(path, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		info, err := os.Lstat(next)
		if err != nil {
			return "", nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if len(links) == maxLinks {
			return "", nil, &fs.PathError{Op: "resolve", Path: path, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		links = append(links, shim.Link{Path: next, Target: target})
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, links, nil
}
