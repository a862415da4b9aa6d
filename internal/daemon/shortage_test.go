//go:build !windows

package daemon_test

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/headroom"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/limit"
)

// A gateway that runs short is in DEGRADED by itself, and leaves it by itself. The
// store knows nothing of it; the audit log does.
func TestShortageDegrades(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, governing(map[string]any{"a__pid": map[string]any{"class": "read_only", "risk": "low", "high_cost": true}}))
	r := h.newRunning(t)
	c := r.client(t)
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
	if err := r.End(); err != nil {
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
