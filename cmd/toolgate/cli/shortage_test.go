//go:build !windows

package cli

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/headroom"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/limit"
)

// shortOf replaces what a gateway watches by one thing, of which there is enough
// until the function that is returned says otherwise.
func (r *running) shortOf(name string) func(short bool) {
	var tight atomic.Bool
	r.Operation.Headroom.Use(headroom.Options{
		Every: time.Millisecond, After: time.Millisecond, Back: time.Millisecond,
		Meters: []headroom.Meter{{Name: name, Read: func() (headroom.Reading, error) {
			if tight.Load() {
				return headroom.Reading{Level: headroom.Tight, Text: "almost none"}, nil
			}
			return headroom.Reading{Level: headroom.Clear}, nil
		}}},
	})
	return tight.Store
}

// A gateway that runs short is in DEGRADED by itself, and leaves it by itself. The
// store knows nothing of it; the audit log does.
func TestShortageDegrades(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, governing(map[string]any{"a__pid": map[string]any{"class": "read_only", "risk": "low", "high_cost": true}}))
	r := h.newRunning(t)
	c := r.client(t, &options{})
	calls := func(when, want string) {
		t.Helper()
		if got := tried(t.Context(), c, "a__pid", "{}"); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	mode := func(want string) {
		t.Helper()
		testwait.Until(t, patience, "the mode is "+want, func() bool { m, err := r.Mode(t.Context()); return err == nil && m.Mode == want })
	}
	calls("at first", "ok")
	short := r.shortOf("disk of /state")
	for range 2 {
		short(true)
		mode("DEGRADED")
		m, _ := r.Mode(t.Context())
		if m.Actor != "toolgate" || m.Reason != "disk of /state: almost none" || m.Since == nil {
			t.Errorf("%+v", m)
		}
		if kept, ok, err := r.Store.Modes().Current(t.Context()); ok || err != nil {
			t.Errorf("the store has %+v, %v", kept, err)
		}
		calls("while it runs short", "governance")
		short(false)
		mode("NORMAL")
		calls("afterwards", "ok")
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"DEGRADED by toolgate: disk of /state: almost none", "NORMAL by toolgate: there is enough again of what was short",
		"DEGRADED by toolgate: disk of /state: almost none", "NORMAL by toolgate: there is enough again of what was short",
	}
	if diff := cmp.Diff(want, auditedModes(t, h.path("state/audit.jsonl"))); diff != "" {
		t.Errorf("audited (-want +got):\n%s", diff)
	}
}

// While memory is short, large messages of clients are refused. Other shortages
// have nothing to do with them.
func TestShortageOfMemoryRefusesLargeMessages(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	r := h.newRunning(t)
	reads := func() error {
		c := r.Messages.Claim("alice")
		defer c.Release()
		_, err := c.Read(bytes.NewReader(make([]byte, 1<<20)), 1<<20, 1<<20)
		return err
	}
	r.shortOf("disk of /state")(true)
	testwait.Until(t, patience, "the mode is DEGRADED", func() bool { m, err := r.Mode(t.Context()); return err == nil && m.Mode == "DEGRADED" })
	if err := reads(); err != nil {
		t.Errorf("while the disk is full: %v", err)
	}
	short := r.shortOf("memory of the process")
	short(true)
	testwait.Until(t, patience, "large messages are refused", func() bool { return errors.Is(reads(), limit.ErrScarce) })
	short(false)
	testwait.Until(t, patience, "large messages are taken again", func() bool { return reads() == nil })
}

// auditedModes are the changes of the mode that an audit log has.
func auditedModes(t *testing.T, path string) []string {
	t.Helper()
	entries, err := audit.Closed(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.Kind == "mode" {
			out = append(out, e.Name+" by "+e.Principal.Subject+": "+e.Reason)
		}
	}
	return out
}

// What a person set counts, before a shortage and during one, until it is over.
func TestShortageAndPeople(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	r := h.newRunning(t)
	set := func(mode string) {
		t.Helper()
		if _, err := r.SetMode(t.Context(), mode, "a person's word"); err != nil {
			t.Fatal(err)
		}
	}
	mode := func(want, actor string) {
		t.Helper()
		testwait.Until(t, patience, "the mode is "+want+" by "+actor, func() bool {
			m, err := r.Mode(t.Context())
			return err == nil && m.Mode == want && strings.HasPrefix(m.Actor, actor)
		})
	}
	alarm := func(want bool) {
		t.Helper()
		testwait.Until(t, patience, "the shortage is an alarm or not", func() bool {
			return strings.Contains(strings.Join(r.Status().Alarms, "\n"), "the gateway runs short: memory: almost none; the mode") == want
		})
	}
	short := r.shortOf("memory")
	set("ALERT")
	short(true)
	alarm(true)
	mode("ALERT", "user ")
	set("NORMAL") // what a shortage found set is no longer: the person knows of it
	mode("NORMAL", "user ")
	alarm(true)
	short(false)
	alarm(false)
	mode("NORMAL", "user ")

	short(true) // another one
	mode("DEGRADED", "toolgate")
	alarm(false)
	set("NORMAL")
	mode("NORMAL", "user ")
	alarm(true)
	set("LOCKDOWN")
	mode("LOCKDOWN", "user ")
	short(false)
	alarm(false)
	mode("LOCKDOWN", "user ")
	if got := r.Operation.Now(); got != "LOCKDOWN" {
		t.Errorf("in force: %s", got)
	}
}

// A shortage that begins before the store could tell the mode counts once it can.
func TestShortageBeforeTheMode(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	r := h.newRunning(t)
	r.Operation.Mode.Store(&store.ModeRecord{})
	r.shortOf("memory")(true)
	testwait.Until(t, patience, "the mode is DEGRADED", func() bool { m, err := r.Mode(t.Context()); return err == nil && m.Mode == "DEGRADED" })
	if alarms := r.Status().Alarms; len(alarms) > 0 {
		t.Errorf("alarms %q", alarms)
	}
}

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
