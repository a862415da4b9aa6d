package headroom_test

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/headroom"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func TestMemoryThresholds(t *testing.T) {
	for _, tt := range []struct {
		used uint64
		want headroom.Level
	}{
		{0, headroom.Clear},
		{80 * mib, headroom.Clear},
		{80*mib + 1, headroom.Between},
		{90*mib - 1, headroom.Between},
		{90 * mib, headroom.Tight},
		{500 * mib, headroom.Tight},
	} {
		got := headroom.Used(tt.used, 100*mib, 90)
		if got.Level != tt.want || !strings.Contains(got.Text, "of 100MiB are in use") {
			t.Errorf("%d: %+v, want level %d", tt.used, got, tt.want)
		}
	}
}

func TestDiskThresholds(t *testing.T) {
	for _, tt := range []struct {
		free, least uint64
		percent     float64
		want        headroom.Level
	}{
		{99 * mib, 100 * mib, 0, headroom.Tight},
		{100 * mib, 100 * mib, 0, headroom.Between},
		{149 * mib, 100 * mib, 0, headroom.Between},
		{150 * mib, 100 * mib, 0, headroom.Clear},
		{gib - 1, 0, 10, headroom.Tight}, // of 10 GiB
		{gib - 1, 100 * mib, 10, headroom.Tight},
		{gib - 1, 2 * gib, 1, headroom.Tight},
		{2 * gib, 100 * mib, 10, headroom.Clear},
		{0, 0, 0, headroom.Clear}, // no threshold
	} {
		if got := headroom.Room(tt.free, 10*gib, tt.least, tt.percent); got.Level != tt.want {
			t.Errorf("%d free, at least %d or %v%%: %+v, want level %d", tt.free, tt.least, tt.percent, got, tt.want)
		}
	}
}

// The real machine: the memory of this process is some, and its disk has room.
func TestRealMeters(t *testing.T) {
	if n := headroom.InUse(); n < 64<<10 || n > 8*gib {
		t.Errorf("this process uses %d bytes", n)
	}
	m, ok := headroom.Memory(64<<10, 90)
	if r, err := m.Read(); !ok || err != nil || r.Level != headroom.Tight {
		t.Errorf("more than all memory: %+v, %v", r, err)
	}
	m, _ = headroom.Memory(1<<50, 90)
	if r, err := m.Read(); err != nil || r.Level != headroom.Clear {
		t.Errorf("almost no memory: %+v, %v", r, err)
	}
	if r, err := headroom.Disk(t.TempDir(), 1<<62, 0).Read(); err != nil || r.Level != headroom.Tight {
		t.Errorf("more than any disk: %+v, %v", r, err)
	}
	if r, err := headroom.Disk(t.TempDir(), 1, 0).Read(); err != nil || r.Level != headroom.Clear {
		t.Errorf("one byte: %+v, %v", r, err)
	}
	if _, err := headroom.Disk(filepath.Join(t.TempDir(), "none"), 1, 0).Read(); err == nil {
		t.Error("a folder that is not there has room")
	}
	if m, ok := headroom.Cgroup(90); ok {
		if r, err := m.Read(); err != nil || r.Text == "" {
			t.Errorf("the cgroup of this process: %+v, %v", r, err)
		}
	}
}

// garbage does not count as used: the heap may grow up to its limit between two
// collections.
func TestGarbageIsNotUsed(t *testing.T) {
	before := headroom.InUse()
	var sink []byte
	for range 64 {
		sink = make([]byte, mib)
		sink[0] = 1
	}
	if after := headroom.InUse(); after > before+32*mib {
		t.Errorf("%d bytes in use, %d before 64 MiB of garbage", after, before)
	}
	_ = sink
}

// files writes the files of a machine.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCgroups(t *testing.T) {
	const v2 = "sys/fs/cgroup/"
	for name, tt := range map[string]struct {
		files map[string]string
		text  string // empty: no limit
	}{
		"none": {files: map[string]string{"proc/self/cgroup": "0::/user"}},
		"no interface": {files: map[string]string{
			"sys/fs/cgroup/memory.max": "1000000",
		}},
		"version 2, in a container": {files: map[string]string{
			"proc/self/cgroup": "0::/", v2 + "memory.max": "104857600", v2 + "memory.current": "94371840", v2 + "memory.stat": "anon 1\ninactive_file 31457280",
		}, text: "60MiB of 100MiB are in use (60%), the threshold is 90%"},
		"version 2, no limit": {files: map[string]string{
			"proc/self/cgroup": "0::/a", v2 + "a/memory.max": "max", v2 + "a/memory.current": "94371840", v2 + "a/memory.stat": "",
		}},
		"version 2, the one around is nearer to its end": {files: map[string]string{
			"proc/self/cgroup":    "0::/a/b",
			v2 + "a/b/memory.max": "104857600", v2 + "a/b/memory.current": "20971520", v2 + "a/b/memory.stat": "inactive_file 0",
			v2 + "a/memory.max": "209715200", v2 + "a/memory.current": "104857600", v2 + "a/memory.stat": "inactive_file 0",
		}, text: "100MiB of 200MiB are in use (50%), the threshold is 90%"},
		"version 1, its path that of the machine": {files: map[string]string{
			"proc/self/cgroup":                           "9:name=systemd:/x\n4:memory:/docker/0123\n0::/",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "104857600", "sys/fs/cgroup/memory/memory.usage_in_bytes": "73400320",
			"sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 10485760",
		}, text: "60MiB of 100MiB are in use (60%), the threshold is 90%"},
		"version 1, no limit": {files: map[string]string{
			"proc/self/cgroup":                           "4:memory:/",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712", "sys/fs/cgroup/memory/memory.usage_in_bytes": "73400320",
			"sys/fs/cgroup/memory/memory.stat": "",
		}},
		"not a number": {files: map[string]string{
			"proc/self/cgroup": "0::/", v2 + "memory.max": "a lot", v2 + "memory.current": "1", v2 + "memory.stat": "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m, ok := headroom.CgroupIn(files(t, tt.files), 90)
			if ok != (tt.text != "") {
				t.Fatalf("limited: %t", ok)
			}
			if !ok {
				return
			}
			if r, err := m.Read(); err != nil || r.Text != tt.text {
				t.Errorf("%+v, %v, want %q", r, err, tt.text)
			}
		})
	}
}

// A limit that is lifted is none any more; files that are gone are an error.
func TestCgroupChanges(t *testing.T) {
	root := files(t, map[string]string{
		"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "1000", "sys/fs/cgroup/memory.current": "990", "sys/fs/cgroup/memory.stat": "",
	})
	m, ok := headroom.CgroupIn(root, 90)
	if r, err := m.Read(); !ok || err != nil || r.Level != headroom.Tight {
		t.Fatalf("%+v, %v", r, err)
	}
	limit := filepath.Join(root, "sys/fs/cgroup/memory.max")
	if err := os.WriteFile(limit, []byte("max\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := m.Read(); err != nil || r.Level != headroom.Clear {
		t.Errorf("lifted: %+v, %v", r, err)
	}
	if err := os.Remove(limit); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Read(); err == nil {
		t.Error("without files: no error")
	}
}

// The memory of a process is that of the least of its limits.
func TestMemoryLimit(t *testing.T) {
	const v2 = "sys/fs/cgroup/"
	root := files(t, map[string]string{
		"proc/self/cgroup":    "0::/a/b",
		v2 + "a/b/memory.max": "209715200", v2 + "a/b/memory.current": "1", v2 + "a/b/memory.stat": "",
		v2 + "a/memory.max": "104857600", v2 + "a/memory.current": "1", v2 + "a/memory.stat": "",
	})
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	if got := headroom.MemoryLimitIn(root); got != 100<<20 {
		t.Errorf("of two cgroups: %d", got)
	}
	if got := headroom.MemoryLimitIn(t.TempDir()); got != 0 {
		t.Errorf("without a limit: %d", got)
	}
	debug.SetMemoryLimit(50 << 30)
	if got := headroom.MemoryLimitIn(t.TempDir()); got != 50<<30 {
		t.Errorf("of the runtime: %d", got)
	}
	if got := headroom.MemoryLimitIn(root); got != 100<<20 {
		t.Errorf("of both: %d", got)
	}
}
