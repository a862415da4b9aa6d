package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

// call is the call of the questions.
var call = store.ApprovalKey{Principal: "alice\x00\xff", CapabilityID: "cap_a", ArgsHash: "hash"}

// ask asks about k and requires a new question.
func ask(t *testing.T, s *store.Store, k store.ApprovalKey) store.ApprovalRecord {
	t.Helper()
	r, asked, err := s.Approvals().Ask(t.Context(), k, store.ApprovalText{}, time.Now().Add(time.Hour))
	if err != nil || !asked {
		t.Fatalf("Ask = %+v, %v, %v; want a new question", r, asked, err)
	}
	return r
}

// Race runs fn n times concurrently on each of the stores, and returns how often it
// returned true.
func Race(t *testing.T, n int, fn func(s *store.Store) (bool, error), stores ...*store.Store) int {
	t.Helper()
	type outcome struct {
		ok  bool
		err error
	}
	outcomes := make(chan outcome)
	for _, s := range stores {
		for range n {
			go func() {
				ok, err := fn(s)
				outcomes <- outcome{ok, err}
			}()
		}
	}
	trues := 0
	for range n * len(stores) {
		o := <-outcomes
		if o.err != nil {
			t.Error(o.err)
		}
		if o.ok {
			trues++
		}
	}
	return trues
}

// ApprovalRace checks on stores that share a database that concurrent callers create
// one question, make one decision and use the grant once.
func ApprovalRace(t *testing.T, k store.ApprovalKey, stores ...*store.Store) {
	t.Helper()
	ctx := context.Background()
	until := time.Now().Add(time.Hour)
	if n := Race(t, 4, func(s *store.Store) (bool, error) {
		_, asked, err := s.Approvals().Ask(ctx, k, store.ApprovalText{}, until)
		return asked, err
	}, stores...); n != 1 {
		t.Errorf("asked %d times, want 1", n)
	}
	r, _, err := stores[0].Approvals().Ask(ctx, k, store.ApprovalText{}, until)
	must(t, err)
	if n := Race(t, 4, func(s *store.Store) (bool, error) { _, ok, err := s.Approvals().Use(ctx, k); return ok, err }, stores...); n != 0 {
		t.Errorf("used %d times before it was granted", n)
	}
	if n := Race(t, 4, func(s *store.Store) (bool, error) {
		_, ok, err := s.Approvals().Decide(ctx, r.ID, true, until, by)
		return ok, err
	}, stores...); n != 1 {
		t.Errorf("decided %d times, want 1", n)
	}
	if n := Race(t, 4, func(s *store.Store) (bool, error) { _, ok, err := s.Approvals().Use(ctx, k); return ok, err }, stores...); n != 1 {
		t.Errorf("used %d times, want 1", n)
	}
}

func approvalUsedOnce(t *testing.T, s *store.Store) {
	ApprovalRace(t, call, s)
	first, _, err := s.Approvals().Ask(t.Context(), call, store.ApprovalText{}, time.Now().Add(time.Hour))
	must(t, err)
	if first.State != store.ApprovalPending {
		t.Errorf("after its grant was used the call is %s, want a new question", first.State)
	}
}

// The text is kept, but the arguments only while they are needed.
func approvalText(t *testing.T, s *store.Store) {
	a, ctx := s.Approvals(), t.Context()
	about := store.ApprovalText{Details: `{"tool":"fs__delete"}`, Arguments: `{"path":"/ä"}`}
	for name, end := range map[string]func(id string, k store.ApprovalKey) error{
		"denied": func(id string, _ store.ApprovalKey) error {
			_, _, err := a.Decide(ctx, id, false, time.Time{}, by)
			return err
		},
		"used": func(id string, k store.ApprovalKey) error {
			granted, _, err := a.Decide(ctx, id, true, time.Now().Add(time.Hour), by)
			if granted.ApprovalText != about {
				t.Errorf("granted: %+v", granted.ApprovalText)
			}
			must(t, err)
			_, _, err = a.Use(ctx, k)
			return err
		},
	} {
		k := call
		k.ArgsHash = name
		r, asked, err := a.Ask(ctx, k, about, time.Now().Add(time.Hour))
		if err != nil || !asked || r.ApprovalText != about {
			t.Fatalf("%s: Ask = %+v, %v, %v", name, r, asked, err)
		}
		if again, _, err := a.Ask(ctx, k, store.ApprovalText{Details: "other"}, time.Now().Add(time.Hour)); err != nil || again.ApprovalText != about {
			t.Errorf("%s: asked again: %+v, %v", name, again, err)
		}
		must(t, end(r.ID, k))
		got, _, err := a.Get(ctx, r.ID)
		must(t, err)
		if got.State != name || got.Details != about.Details || got.Arguments != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, bad := range []store.ApprovalText{{Details: strings.Repeat("d", 8<<10+1)}, {Arguments: strings.Repeat("a", 16<<10+1)}, {Details: "\x00"}} {
		k := call
		k.ArgsHash = "bad"
		if _, _, err := a.Ask(ctx, k, bad, time.Now().Add(time.Hour)); err == nil {
			t.Errorf("details of %d and arguments of %d bytes were kept", len(bad.Details), len(bad.Arguments))
		}
	}
}

func approvalDecidedOnce(t *testing.T, s *store.Store) {
	a, ctx := s.Approvals(), t.Context()
	want := ask(t, s, call)
	if n, err := a.Pending(ctx); n != 1 || err != nil {
		t.Errorf("%d questions wait, %v; want 1", n, err)
	}
	until := time.Now().Add(2 * time.Hour).UTC().Round(0)
	granted, ok, err := a.Decide(ctx, want.ID, true, until, store.Change{Actor: "bob", Reason: "fine"})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if n, err := a.Pending(ctx); n != 0 || err != nil {
		t.Errorf("%d questions wait after the answer, %v", n, err)
	}
	recently(t, "AskedAt", want.AskedAt)
	recently(t, "DecidedAt", granted.DecidedAt)
	want.State, want.ExpiresAt, want.DecidedBy, want.Reason, want.DecidedAt = store.ApprovalGranted, until, "bob", "fine", granted.DecidedAt
	if diff := cmp.Diff(want, granted); diff != "" {
		t.Errorf("granted (-want +got):\n%s", diff)
	}
	if r, ok, err := a.Decide(ctx, want.ID, false, time.Time{}, by); ok || err != nil || r.State != store.ApprovalGranted || r.DecidedBy != "bob" {
		t.Errorf("decided again: %+v, %v, %v", r, ok, err)
	}
	if r, asked, err := a.Ask(ctx, call, store.ApprovalText{}, until); asked || err != nil || r.ID != want.ID {
		t.Errorf("a granted call asks again: %+v, %v, %v", r, asked, err)
	}
	if r, ok, err := a.Decide(ctx, "apr_none", true, until, by); ok || err != nil || r != (store.ApprovalRecord{}) {
		t.Errorf("decided what is not there: %+v, %v, %v", r, ok, err)
	}
	for name, decide := range map[string]func() (store.ApprovalRecord, bool, error){
		"nobody":   func() (store.ApprovalRecord, bool, error) { return a.Decide(ctx, want.ID, true, until, store.Change{}) },
		"the past": func() (store.ApprovalRecord, bool, error) { return a.Decide(ctx, want.ID, true, time.Now(), by) },
	} {
		if _, _, err := decide(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	other := call
	other.ArgsHash = "denied"
	r := ask(t, s, other)
	if r, ok, err := a.Decide(ctx, r.ID, false, time.Time{}, by); !ok || err != nil || r.State != store.ApprovalDenied {
		t.Errorf("denied: %+v, %v, %v", r, ok, err)
	}
	if _, ok, err := a.Use(ctx, other); ok || err != nil {
		t.Errorf("a denied call was made: %v, %v", ok, err)
	}
}

func approvalForOneCall(t *testing.T, s *store.Store) {
	r := ask(t, s, call)
	if _, ok, err := s.Approvals().Decide(t.Context(), r.ID, true, time.Now().Add(time.Hour), by); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, other := range []store.ApprovalKey{
		{Principal: "alice", CapabilityID: "cap_a", ArgsHash: "hash"},
		{Principal: call.Principal, CapabilityID: "cap_A", ArgsHash: "hash"},
		{Principal: call.Principal, CapabilityID: "cap_a", ArgsHash: "Hash"},
	} {
		if _, ok, err := s.Approvals().Use(t.Context(), other); ok || err != nil {
			t.Errorf("%q used the grant of another call: %v, %v", other, ok, err)
		}
	}
	if used, ok, err := s.Approvals().Use(t.Context(), call); !ok || err != nil || used.ID != r.ID || used.State != store.ApprovalUsed {
		t.Errorf("Use = %+v, %v, %v", used, ok, err)
	}
}

func approvalExpires(t *testing.T, s *store.Store) {
	a, ctx := s.Approvals(), t.Context()
	soon := func() time.Time { return time.Now().Add(150 * time.Millisecond) }
	r, _, err := a.Ask(ctx, call, store.ApprovalText{}, soon())
	must(t, err)
	other := call
	other.ArgsHash = "granted"
	g := ask(t, s, other)
	if _, ok, err := a.Decide(ctx, g.ID, true, soon(), by); !ok || err != nil {
		t.Fatal(ok, err)
	}
	waitFor(t, "both to expire", func() bool {
		list, err := a.List(ctx, store.ApprovalExpired, 10)
		must(t, err)
		return len(list) == 2
	})
	if got, _, err := a.Get(ctx, r.ID); err != nil || got.State != store.ApprovalExpired {
		t.Errorf("Get = %+v, %v; want expired", got, err)
	}
	if r, ok, err := a.Decide(ctx, r.ID, true, time.Now().Add(time.Hour), by); ok || err != nil || r.State != store.ApprovalExpired {
		t.Errorf("decided too late: %+v, %v, %v", r, ok, err)
	}
	if _, ok, err := a.Use(ctx, other); ok || err != nil {
		t.Errorf("used too late: %v, %v", ok, err)
	}
	if again := ask(t, s, call); again.ID == r.ID {
		t.Error("an expired question was asked again under its id")
	}
	if _, _, err := a.Ask(ctx, call, store.ApprovalText{}, time.Now().Add(-time.Second)); err == nil {
		t.Error("a question that is over was asked")
	}
}

// A denial answers only its own call, until it expires or is retracted.
func approvalDenied(t *testing.T, s *store.Store) {
	a, ctx := s.Approvals(), t.Context()
	soon, late := time.Now().Add(300*time.Millisecond), time.Now().Add(time.Hour)
	deny := func(hash string, until time.Time) (store.ApprovalKey, store.ApprovalRecord) {
		t.Helper()
		k := call
		k.ArgsHash = hash
		r, ok, err := a.Decide(ctx, ask(t, s, k).ID, false, until, store.Change{Actor: "bob", Reason: "never"})
		if !ok || err != nil || r.State != store.ApprovalDenied {
			t.Fatalf("denied: %+v, %v, %v", r, ok, err)
		}
		return k, r
	}
	k, denied := deny("stands", late)
	if again, asked, err := a.Ask(ctx, k, store.ApprovalText{}, late); asked || err != nil || again.ID != denied.ID || again.State != store.ApprovalDenied || again.Reason != "never" {
		t.Errorf("asked again: %+v, %v, %v", again, asked, err)
	}
	if got, ok, err := a.Find(ctx, k); !ok || err != nil || got.ID != denied.ID {
		t.Errorf("Find = %+v, %v, %v", got, ok, err)
	}
	if _, ok, err := a.Use(ctx, k); ok || err != nil {
		t.Errorf("used: %v, %v", ok, err)
	}
	for _, other := range []store.ApprovalKey{{Principal: "alice", CapabilityID: k.CapabilityID, ArgsHash: k.ArgsHash}, {Principal: k.Principal, CapabilityID: "cap_b", ArgsHash: k.ArgsHash}, {Principal: k.Principal, CapabilityID: k.CapabilityID, ArgsHash: "other"}} {
		if _, ok, err := a.Find(ctx, other); ok || err != nil {
			t.Errorf("%+v has the denial of another: %v", other, err)
		}
		ask(t, s, other)
	}
	if r, ok, err := a.Retract(ctx, denied.ID); !ok || err != nil || r.State != store.ApprovalDenied || r.DecidedBy != "bob" {
		t.Errorf("Retract = %+v, %v, %v", r, ok, err)
	}
	if _, ok, err := a.Retract(ctx, denied.ID); ok || err != nil {
		t.Errorf("taken back twice: %v, %v", ok, err)
	}
	if _, ok, err := a.Find(ctx, k); ok || err != nil {
		t.Errorf("a denial that was taken back stands: %v", err)
	}
	if again := ask(t, s, k); again.ID == denied.ID {
		t.Error("asked again under the id of the denial")
	}
	if r, ok, err := a.Retract(ctx, "apr_none"); ok || err != nil || r != (store.ApprovalRecord{}) {
		t.Errorf("Retract of nothing = %+v, %v, %v", r, ok, err)
	}
	now, _ := deny("over at once", time.Time{})
	ask(t, s, now)
	brief, _ := deny("expires", soon)
	waitFor(t, "the denial to expire", func() bool {
		_, ok, err := a.Find(ctx, brief)
		must(t, err)
		return !ok
	})
	ask(t, s, brief)
}

func approvalLimit(t *testing.T, s *store.Store) {
	k := call
	for i := range 64 {
		k.ArgsHash = fmt.Sprint(i)
		ask(t, s, k)
	}
	k.ArgsHash = "one more"
	if _, _, err := s.Approvals().Ask(t.Context(), k, store.ApprovalText{}, time.Now().Add(time.Hour)); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("one more = %v, want ErrTooMany", err)
	}
	k.Principal = "bob"
	ask(t, s, k)
}

func approvalList(t *testing.T, s *store.Store) {
	a, ctx := s.Approvals(), t.Context()
	var ids []string
	for i := range 3 {
		k := call
		k.ArgsHash = fmt.Sprint(i)
		ids = append(ids, ask(t, s, k).ID)
	}
	if _, ok, err := a.Decide(ctx, ids[1], false, time.Time{}, by); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, tc := range []struct {
		state string
		limit int
		want  []string
	}{
		{"", 10, []string{ids[2], ids[1], ids[0]}},
		{"", 2, []string{ids[2], ids[1]}},
		{"", -1, nil},
		{store.ApprovalPending, 10, []string{ids[2], ids[0]}},
		{store.ApprovalDenied, 10, []string{ids[1]}},
		{store.ApprovalUsed, 10, nil},
		{"\x00", 10, nil},
	} {
		list, err := a.List(ctx, tc.state, tc.limit)
		must(t, err)
		var got []string
		for _, r := range list {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q, %d (-want +got):\n%s", tc.state, tc.limit, diff)
		}
	}
	if n, err := a.Expire(ctx); n != 0 || err != nil {
		t.Errorf("Expire = %d, %v; want none", n, err)
	}
}
