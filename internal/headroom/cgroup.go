package headroom

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// A cgroup limits the memory of all its processes together. At the limit the kernel
// kills one of them. Both versions of the interface are supported, as described in the
// kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.

// cgroupFiles are the file names of one version of the interface.
type cgroupFiles struct {
	limit, usage string
	inactive     string // line of memory.stat: file pages that are reclaimed first
}

var (
	filesV1 = cgroupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	filesV2 = cgroupFiles{"memory.max", "memory.current", "inactive_file"}
)

// unlimited is the least value of version 1 that means no limit: it writes the largest
// number of pages.
const unlimited = math.MaxInt64 / 2

// cgroup is a folder of the interface with a memory limit.
type cgroup struct {
	dir   string
	files cgroupFiles
}

// Cgroup returns a meter of the memory of this process's cgroup and its parents,
// against their limits. The one with the largest used share counts. File cache that the
// kernel can reclaim does not count as used. The meter is tight at percent of the
// limit. ok is false where there is no limit, as outside of Linux.
func Cgroup(percent int) (m Meter, ok bool) { return cgroupIn("/", percent) }

func cgroupIn(root string, percent int) (m Meter, ok bool) {
	groups := limited(root)
	read := func() (Reading, error) {
		var most Reading
		var share float64
		for _, g := range groups {
			n, limit, err := g.read()
			if err != nil {
				return Reading{}, err
			}
			if part := float64(n) / float64(limit); limit > 0 && (most.Text == "" || part > share) {
				most, share = used(n, limit, percent), part
			}
		}
		if most.Text == "" { // all limits were removed
			return Reading{Level: Clear}, nil
		}
		return most, nil
	}
	return Meter{Name: ofCgroup, Read: read}, len(groups) > 0
}

// limited returns the cgroups of this process that have a limit now.
func limited(root string) []cgroup {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	var out []cgroup
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount, files := "sys/fs/cgroup", filesV2
		if fields[1] != "" {
			if fields[1] != "memory" {
				continue
			}
			mount, files = "sys/fs/cgroup/memory", filesV1
		}
		// The path may be that outside of a container, where its folder does not exist.
		// The limit of the container is then that of the mount.
		for at := path.Clean("/" + fields[2]); ; at = path.Dir(at) {
			g := cgroup{filepath.Join(root, mount, filepath.FromSlash(at)), files}
			if _, limit, err := g.read(); err == nil && limit > 0 {
				out = append(out, g)
			}
			if at == "/" {
				break
			}
		}
	}
	return out
}

// read returns the used bytes and the limit, 0 for none.
func (g cgroup) read() (n, limit uint64, err error) {
	text, err := os.ReadFile(filepath.Join(g.dir, g.files.limit))
	if err != nil {
		return 0, 0, err
	}
	if strings.TrimSpace(string(text)) == "max" {
		return 0, 0, nil
	}
	if limit, err = number(string(text)); err != nil || limit == 0 || limit >= unlimited {
		return 0, 0, err
	}
	if text, err = os.ReadFile(filepath.Join(g.dir, g.files.usage)); err != nil {
		return 0, 0, err
	}
	if n, err = number(string(text)); err != nil {
		return 0, 0, err
	}
	stat, err := os.ReadFile(filepath.Join(g.dir, "memory.stat"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(stat)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == g.files.inactive {
			spare, err := number(value)
			if err != nil {
				return 0, 0, err
			}
			return n - min(n, spare), limit, nil
		}
	}
	return n, limit, nil
}

var errNumber = errors.New("is not a number of bytes")

func number(text string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q %w", text, errNumber)
	}
	return n, nil
}
