package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolgate/toolgate/internal/store"
)

// due is a call of the principal "p" at a time.
func due(at time.Time) store.Schedule {
	return store.Schedule{Principal: "p", Credential: "key:1", Capsule: "c", Tool: "fs__read", Arguments: []byte(`{"path":"\u0000"}`), DueAt: at.UTC().Round(0)}
}

// past and future are far enough from now for every test.
func past() time.Time   { return time.Now().Add(-time.Minute) }
func future() time.Time { return time.Now().Add(time.Hour) }

// schedules checks that a call goes from its plan to its end, and that nobody but its
// owner sees or cancels it.
func schedules(t *testing.T, s *store.Store) {
	c, ctx := store.NewSchedules(s), t.Context()
	plan := func(one store.Schedule) store.Schedule {
		t.Helper()
		got, err := c.Add(ctx, one)
		must(t, err)
		return got
	}
	late := due(past())
	late.Principal = "q\x00\xff"
	other := plan(late)
	planned, soon := plan(due(future())), plan(due(past().Add(time.Second)))
	recently(t, "CreatedAt", planned.CreatedAt)
	list, err := c.List(ctx, "p")
	must(t, err)
	if diff := cmp.Diff([]store.Schedule{soon, planned}, list, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("planned (-want +got):\n%s", diff)
	}
	for _, id := range []string{other.ID, "", "\x00", "sch_%"} {
		if ok, err := c.Cancel(ctx, "p", id); ok || err != nil {
			t.Errorf("cancelled %q of another: %v, %v", id, ok, err)
		}
	}
	if at, ok, err := c.Next(ctx); !ok || err != nil || !at.Equal(other.DueAt) {
		t.Errorf("next is due %v, %v, %v", at, ok, err)
	}
	if at, ok, err := c.Next(ctx, "x", other.Principal); !ok || err != nil || !at.Equal(soon.DueAt) {
		t.Errorf("next but for one principal is due %v, %v, %v", at, ok, err)
	}
	if got, ok, err := c.Claim(ctx, "h0", past().Add(-time.Hour), future(), "p", other.Principal); ok || err != nil {
		t.Errorf("claimed %+v, %v, though all principals are left out", got, err)
	}
	first, ok, err := c.Claim(ctx, "h1", past().Add(-time.Hour), future(), "p")
	if err != nil || !ok || first.ID != other.ID || first.Principal != other.Principal || first.State != store.ScheduleRunning || string(first.Arguments) != string(other.Arguments) {
		t.Errorf("claimed %+v, %v, %v", first, ok, err)
	}
	second, ok, err := c.Claim(ctx, "h2", past().Add(-time.Hour), future())
	if err != nil || !ok || second.ID != soon.ID {
		t.Errorf("claimed %+v, %v, %v", second, ok, err)
	}
	if third, ok, err := c.Claim(ctx, "h3", past().Add(-time.Hour), future()); ok || err != nil {
		t.Errorf("claimed what is not due: %+v, %v", third, err)
	}
	if ok, err := c.Cancel(ctx, "p", soon.ID); ok || err != nil {
		t.Errorf("cancelled what runs: %v, %v", ok, err)
	}
	end := store.ScheduleEnd{CallID: "call-1", Result: []byte("{\"a\":\"\xc3\xa4\"}")}
	if ok, err := c.Finish(ctx, soon.ID, "h1", store.ScheduleMade, end); ok || err != nil {
		t.Errorf("another holder has finished it: %v, %v", ok, err)
	}
	if ok, err := c.Finish(ctx, soon.ID, "h2", store.ScheduleMade, end); !ok || err != nil {
		t.Errorf("Finish = %v, %v", ok, err)
	}
	if ok, err := c.Finish(ctx, soon.ID, "h2", store.ScheduleRefused, end); ok || err != nil {
		t.Errorf("finished twice: %v, %v", ok, err)
	}
	if ok, err := c.Cancel(ctx, "p", planned.ID); !ok || err != nil {
		t.Errorf("Cancel = %v, %v", ok, err)
	}
	list, err = c.List(ctx, "p")
	must(t, err)
	recently(t, "EndedAt", list[0].EndedAt)
	soon.State, soon.ScheduleEnd, planned.State = store.ScheduleMade, end, store.ScheduleCancelled
	soon.Arguments, planned.Arguments = nil, nil // what has ended needs none
	if diff := cmp.Diff([]store.Schedule{soon, planned}, list, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(store.Schedule{}, "EndedAt")); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

// schedulesBounded checks the limits and what is refused.
func schedulesBounded(t *testing.T, s *store.Store) {
	c, ctx := store.NewSchedules(s), t.Context()
	for range store.MaxPlanned {
		_, err := c.Add(ctx, due(future()))
		must(t, err)
	}
	if _, err := c.Add(ctx, due(future())); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("one more = %v", err)
	}
	for name, change := range map[string]func(*store.Schedule){
		"no principal":    func(s *store.Schedule) { s.Principal = "" },
		"no tool":         func(s *store.Schedule) { s.Tool = "" },
		"NUL in the tool": func(s *store.Schedule) { s.Tool = "\x00" },
		"large arguments": func(s *store.Schedule) { s.Arguments = make([]byte, store.MaxScheduledArguments+1) },
		"a long capsule":  func(s *store.Schedule) { s.Capsule = strings.Repeat("c", 513) },
	} {
		bad := due(future())
		bad.Principal = "bad"
		change(&bad)
		if _, err := c.Add(ctx, bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, holder := range []string{"", "\x00", strings.Repeat("h", 65)} {
		if _, _, err := c.Claim(ctx, holder, past(), future()); err == nil {
			t.Errorf("claimed by %.3q", holder)
		}
	}
	for _, state := range []string{"", store.SchedulePlanned, store.ScheduleRunning, store.ScheduleLost} {
		if _, err := c.Finish(ctx, "sch_", "h", state, store.ScheduleEnd{}); err == nil {
			t.Errorf("finished as %q", state)
		}
	}
	if _, err := c.Finish(ctx, "sch_", "h", store.ScheduleMade, store.ScheduleEnd{Result: make([]byte, store.MaxScheduledResult+1)}); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a large result = %v", err)
	}
	// What has ended takes no place, and only so much of it is kept.
	for range 150 {
		one := due(future())
		one.Principal = "busy"
		got, err := c.Add(ctx, one)
		must(t, err)
		_, err = c.Cancel(ctx, "busy", got.ID)
		must(t, err)
	}
	if list, err := c.List(ctx, "busy"); err != nil || len(list) != 128 {
		t.Errorf("%d are kept, %v", len(list), err)
	}
}

// schedulesClaimedOnce checks that concurrent holders get different calls.
func schedulesClaimedOnce(t *testing.T, s *store.Store) {
	ClaimRace(t, s)
}

// ClaimRace checks on stores that share a database that each of some calls is claimed by
// one holder.
func ClaimRace(t *testing.T, stores ...*store.Store) {
	t.Helper()
	ctx := context.Background()
	const calls = 20
	for range calls {
		_, err := store.NewSchedules(stores[0]).Add(ctx, due(past()))
		must(t, err)
	}
	claimed := make(chan string, 2*calls)
	if n := Race(t, 40/len(stores), func(s *store.Store) (bool, error) {
		one, ok, err := store.NewSchedules(s).Claim(ctx, "h", past().Add(-time.Hour), future())
		if ok {
			claimed <- one.ID
		}
		return ok, err
	}, stores...); n != calls {
		t.Errorf("%d were claimed, want %d", n, calls)
	}
	close(claimed)
	seen := map[string]bool{}
	for id := range claimed {
		if seen[id] {
			t.Errorf("%s was claimed twice", id)
		}
		seen[id] = true
	}
}

// schedulesNeverGoBack does anything in any order, with leases that have ended and some
// that have not, and checks that no call is claimed twice and that no end is undone.
func schedulesNeverGoBack(t *testing.T, s *store.Store) {
	c, ctx := store.NewSchedules(s), t.Context()
	r := rand.New(rand.NewPCG(3, 4))
	holders := []string{"h0", "h1", "h2"}
	var ids []string
	claims, ends := map[string]string{}, map[string]string{}
	final := map[string]bool{store.ScheduleMade: true, store.ScheduleFailed: true, store.ScheduleRefused: true, store.ScheduleMissed: true, store.ScheduleCancelled: true}
	some := func() string { return ids[r.IntN(len(ids))] }
	for range 300 {
		holder := holders[r.IntN(len(holders))]
		switch n := r.IntN(10); {
		case n < 2 || len(ids) == 0:
			one, err := c.Add(ctx, due(time.Now().Add(time.Duration(r.IntN(5)-3)*time.Minute)))
			if errors.Is(err, store.ErrTooMany) {
				continue
			}
			must(t, err)
			ids = append(ids, one.ID)
		case n < 5:
			one, ok, err := c.Claim(ctx, holder, time.Now().Add(-150*time.Second), time.Now().Add(time.Duration(r.IntN(3)-1)*time.Minute))
			must(t, err)
			if ok && (claims[one.ID] != "" || ends[one.ID] != "") {
				t.Fatalf("%s was claimed by %s, was %q, and is claimed again", one.ID, claims[one.ID], ends[one.ID])
			}
			if ok {
				claims[one.ID] = holder
			}
		case n < 7:
			id, state := some(), []string{store.ScheduleMade, store.ScheduleFailed, store.ScheduleRefused}[r.IntN(3)]
			ok, err := c.Finish(ctx, id, holder, state, store.ScheduleEnd{})
			must(t, err)
			if want := claims[id] == holder && !final[ends[id]]; ok != want {
				t.Fatalf("%s, claimed by %q and %q: finished by %s: %v", id, claims[id], ends[id], holder, ok)
			}
		case n < 8:
			_, err := c.Lose(ctx)
			must(t, err)
		case n < 9:
			_, err := c.Cancel(ctx, "p", some())
			must(t, err)
		default:
			must(t, c.Renew(ctx, some(), holder, time.Now().Add(time.Duration(r.IntN(3)-1)*time.Minute)))
		}
		list, err := c.List(ctx, "p")
		must(t, err)
		for _, one := range list {
			if was := ends[one.ID]; final[was] && one.State != was {
				t.Fatalf("%s was %s and is %s", one.ID, was, one.State)
			}
			if (one.State == store.ScheduleRunning || one.State == store.ScheduleLost) != (claims[one.ID] != "" && !final[one.State]) {
				t.Fatalf("%s is %s, claimed by %q", one.ID, one.State, claims[one.ID])
			}
			if one.State != store.SchedulePlanned && one.State != store.ScheduleRunning {
				ends[one.ID] = one.State
			}
		}
	}
	if len(claims) == 0 || len(ends) == 0 {
		t.Errorf("nothing happened: %v, %v", claims, ends)
	}
}
