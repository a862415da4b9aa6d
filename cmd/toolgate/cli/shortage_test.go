//go:build e2e && !windows

package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Through the program, with the real memory of the process: far above a limit
// that is far too small, and far below one that is not.
func TestShortageOfTheProgram(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	limited := func(limit string) map[string]any {
		return map[string]any{"governance": map[string]any{"degraded": map[string]any{"memory_limit": limit, "after": "1s", "back": "1s"}}}
	}
	h.write(t, servers{"a": fake()}, limited("1MiB"))
	h.up(t)
	testwait.Until(t, patience, "it is degraded", func() bool { return h.ok(t, "mode", "--file", h.file, "-o", "name") == "DEGRADED\n" })
	if got := h.ok(t, "ls", h.file); !strings.Contains(got, "mode DEGRADED since ") || !strings.Contains(got, ", by toolgate: memory of the process: ") {
		t.Errorf("ls: %s", got)
	}
	h.write(t, servers{"a": fake()}, limited("1000GiB"))
	h.ok(t, "reload", h.file)
	testwait.Until(t, patience, "it is not any more", func() bool { return h.ok(t, "mode", "--file", h.file, "-o", "name") == "NORMAL\n" })
}

// What is watched of what a configuration says.
func TestRoom(t *testing.T) {
	t.Parallel()
	state := &statedir.Dir{Path: "/state"}
	watched := func(change func(*config.Toolgate)) map[string]bool {
		c := &config.Config{}
		c.Toolgate.Store = "sqlite:"
		d := &c.Toolgate.Governance.Degraded
		d.Memory, d.Disk, d.MemoryLimit = 90, 64<<20, 1<<30
		change(&c.Toolgate)
		names := map[string]bool{}
		for _, m := range operate.Room(c, state).Meters {
			if m.Name != "memory of the cgroup" { // as the machine has one or not
				names[m.Name] = true
			}
		}
		return names
	}
	for name, tt := range map[string]struct {
		change func(*config.Toolgate)
		want   []string
	}{
		"as it comes": {func(*config.Toolgate) {}, []string{"memory of the process", "disk of /state"}},
		"off":         {func(c *config.Toolgate) { c.Governance.Degraded.Auto = new(bool) }, nil},
		"elsewhere": {func(c *config.Toolgate) { c.Store, c.Audit.Path = "sqlite:/d/x.db", "/a/audit.jsonl" }, []string{
			"memory of the process", "disk of /state", "disk of /d", "disk of /a",
		}},
		"no disk": {func(c *config.Toolgate) { c.Governance.Degraded.Disk = 0 }, []string{"memory of the process"}},
		"percent": {func(c *config.Toolgate) {
			c.Store, c.Governance.Degraded.Disk, c.Governance.Degraded.DiskPercent = "postgres://h/d", 0, 5
		}, []string{"memory of the process", "disk of /state"}},
	} {
		want := map[string]bool{}
		for _, one := range tt.want {
			want[one] = true
		}
		if diff := cmp.Diff(want, watched(tt.change)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
