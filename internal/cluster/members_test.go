//go:build !windows

package cluster

import (
	"context"
	"log/slog"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/replica"
)

const patience = 30 * time.Second

// postgres is the PostgreSQL server of the tests.
var postgres storetest.Server

// Members go by the clock of the database, and what others decide by is announced.
func TestMembers(t *testing.T) {
	s := storetest.Opened(t, store.Options{URL: postgres.SchemaURL(t)})
	r, ctx := NewMembers(s), t.Context()
	list := func() map[string]Member {
		t.Helper()
		all, err := r.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]Member{}
		for _, m := range all {
			out[m.ID] = m
		}
		return out
	}
	gone := false
	renew := func(m Member, lease time.Duration) func() error {
		return func() (err error) {
			gone, err = r.Renew(ctx, m, lease)
			return err
		}
	}
	announced := func(do func() error) bool {
		t.Helper()
		before, err := s.Generation(ctx, Topic)
		if err != nil {
			t.Fatal(err)
		}
		if err := do(); err != nil {
			t.Fatal(err)
		}
		after, err := s.Generation(ctx, Topic)
		if err != nil {
			t.Fatal(err)
		}
		return after != before
	}
	a := Member{ID: "a", Address: "127.0.0.1:1", Version: "1", Wire: 1, Load: Load{Sessions: 2, Calls: 1}, Started: time.UnixMilli(1_000).UTC()} // long ago, by its own clock
	b := Member{ID: "b", Address: "127.0.0.1:2", Version: "1", Wire: 1, Started: time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()}
	if !announced(renew(a, time.Minute)) || !announced(renew(b, time.Minute)) {
		t.Error("nobody is told of a member that joins")
	}
	a.Load = Load{Sessions: 5, Calls: 6, Runs: 7, Jobs: 8}
	if announced(renew(a, time.Minute)) {
		t.Error("everybody is told of a lease that goes on")
	}
	if got, want := list(), map[string]Member{"a": a, "b": b}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	a.Draining = true
	if !announced(renew(a, time.Minute)) || !list()["a"].Draining {
		t.Error("nobody is told of a member that drains")
	}
	if err := renew(b, time.Millisecond)(); err != nil {
		t.Fatal(err)
	}
	if gone {
		t.Error("a member counts as gone that has renewed its lease")
	}
	testwait.Until(t, patience, "the lease of b ends", func() bool { return len(list()) == 1 })
	if !announced(renew(b, time.Minute)) {
		t.Error("nobody is told of a member that comes back")
	}
	if !gone {
		t.Error("a member that comes back is not told that it had counted as gone")
	}
	again := Member{ID: "c", Address: b.Address, Version: "1", Wire: 1, Started: b.Started}
	if !announced(renew(again, time.Minute)) || len(list()) != 2 || list()["b"].ID != "" {
		t.Errorf("%v, want c in the place of b", list())
	}
	if !announced(func() error { return r.Leave(ctx, "a") }) || len(list()) != 1 {
		t.Errorf("%v after a has left", list())
	}
}

// What a session has set is there for whoever has its id, until it has ended.
func TestStates(t *testing.T) {
	for name, o := range map[string]store.Options{"SQLite": {Path: t.TempDir() + "/store.db"}, "PostgreSQL": {URL: postgres.SchemaURL(t)}} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Opened(t, o)
			states := NewStates(s, keyring(t, "a"), slog.New(slog.DiscardHandler))
			has := func(id string, want replica.State) func() bool {
				return func() bool {
					got, err := states.Load(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					return reflect.DeepEqual(got, want)
				}
			}
			if !has("s", replica.State{})() {
				t.Error("something is set at first")
			}
			set := replica.State{Level: "error", Subscribed: []string{"file:///a"}}
			states.Save("s", replica.State{Level: "info"})
			states.Save("s", set)
			testwait.Until(t, patience, "the last state is there", has("s", set))
			if !has("other", replica.State{})() {
				t.Error("another id has it")
			}
			if _, err := NewStates(s, keyring(t, "b"), slog.New(slog.DiscardHandler)).Load(t.Context(), "s"); err == nil {
				t.Error("it opens with another key")
			}
			large := replica.State{Subscribed: []string{string(make([]byte, maxState))}}
			states.Save("s", large) // is not kept
			states.Save("t", replica.State{Level: "debug"})
			testwait.Until(t, patience, "the writer has come to it", has("t", replica.State{Level: "debug"}))
			if !has("s", set)() {
				t.Error("what is too large replaced what was there")
			}
			states.Save("s", replica.State{Ended: true})
			testwait.Until(t, patience, "the session has ended", has("s", replica.State{Ended: true}))
			old := `UPDATE session_states SET at = ` + strconv.FormatInt(time.Now().Add(-replica.CarriedTime-time.Minute).UnixMilli(), 10)
			if err := s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error { _, err := tx.Exec(ctx, old); return err }); err != nil {
				t.Fatal(err)
			}
			later := NewStates(s, keyring(t, "a"), slog.New(slog.DiscardHandler))
			later.Save("u", replica.State{Level: "debug"})
			testwait.Until(t, patience, "sessions that cannot go on are forgotten", has("s", replica.State{}))
			if !has("u", replica.State{Level: "debug"})() {
				t.Error("one that can is forgotten, too")
			}
		})
	}
}
