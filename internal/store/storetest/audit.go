package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

func anchors(t *testing.T, s *store.Store) {
	a := s.Anchors()
	at := time.Now().UTC().Round(0)
	first := store.Anchor{Replica: "r", Run: "1", Chain: "c", Seq: 7, MAC: "m7", At: at}
	second := store.Anchor{Replica: "r", Run: "2", Chain: "c", Seq: 9, MAC: "m9", At: at.Add(time.Second)}
	earlier := first
	earlier.Seq, earlier.MAC = 5, "m5"
	other := first
	other.Replica = "other"
	for _, one := range []store.Anchor{first, earlier, second, other} {
		must(t, a.Put(t.Context(), one))
	}
	got, err := a.List(t.Context(), "r")
	must(t, err)
	if diff := cmp.Diff([]store.Anchor{first, second}, got); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
	got, err = a.Others(t.Context(), "r")
	must(t, err)
	if diff := cmp.Diff([]store.Anchor{other}, got); diff != "" {
		t.Errorf("anchors of others (-want +got):\n%s", diff)
	}
}

func executions(t *testing.T, s *store.Store) {
	e := s.Executions(24 * time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	now := time.Now()
	for i := range 600 {
		x := store.Execution{
			At: now, CallID: fmt.Sprint(i), Server: "a", Tool: "a__read", Tenant: "acme", Persona: "bot", Success: true,
			Duration: time.Duration(i) * time.Millisecond, RequestSize: 2, ResponseSize: 3, Saved: 4, Principal: "alice\x00",
		}
		if i%10 == 0 {
			x.Tool, x.Success, x.ErrorClass = "a__write \x00\xff", false, "tool_error"
		}
		e.Add(x)
	}
	e.Add(store.Execution{At: now.Add(-48 * time.Hour), Tool: "old"})
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	cancel()
	must(t, <-ended)
	if got := e.Stats(); got.Written != 601 || got.Dropped != 0 {
		t.Errorf("%+v", got)
	}
	got, err := e.Usage(t.Context(), now.Add(-time.Hour), "tool", "tenant", "persona")
	must(t, err)
	want := []store.Usage{
		{
			Group: []string{"a__read", "acme", "bot"}, Calls: 540, Errors: map[string]int64{},
			P50: 299 * time.Millisecond, P95: 569 * time.Millisecond, BytesIn: 1080, BytesOut: 1620, BytesSaved: 2160,
		},
		{
			Group: []string{"a__write \ufffd\ufffd", "acme", "bot"}, Calls: 60, Failures: 60, Errors: map[string]int64{"tool_error": 60},
			P50: 290 * time.Millisecond, P95: 560 * time.Millisecond, BytesIn: 120, BytesOut: 180, BytesSaved: 240,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	executionStats(t, e, now)
	all, err := e.Usage(t.Context(), now.Add(-72*time.Hour))
	if err != nil || len(all) != 1 || all[0].Calls != 601 {
		t.Errorf("all: %+v, %v", all, err)
	}
	if _, err := e.Usage(t.Context(), now, "colour"); err == nil {
		t.Error("grouped by colour")
	}
	must(t, e.Prune(t.Context(), now))
	if all, err = e.Usage(t.Context(), now.Add(-72*time.Hour)); err != nil || len(all) != 1 || all[0].Calls != 600 {
		t.Errorf("after the old one is removed: %+v, %v", all, err)
	}
}

// executionStats checks the statistics of the executions of one principal, which others
// do not share.
func executionStats(t *testing.T, e *store.Executions, now time.Time) {
	t.Helper()
	at := now.Truncate(time.Millisecond).UTC()
	want := []store.ToolStats{
		{Tool: "a__read", Calls: 540, Median: 299 * time.Millisecond, P95: 569 * time.Millisecond},
		{
			Tool: "a__write \ufffd\ufffd", Calls: 60, Failures: 60, Median: 290 * time.Millisecond, P95: 560 * time.Millisecond,
			LastError: "tool_error", LastErrorAt: at,
		},
	}
	own, err := e.StatsOf(t.Context(), "alice\x00", now.Add(-time.Hour))
	must(t, err)
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("of a principal (-want +got):\n%s", diff)
	}
	tenant, err := e.StatsOfTenant(t.Context(), "acme", now.Add(-time.Hour))
	must(t, err)
	if diff := cmp.Diff(want, tenant); diff != "" {
		t.Errorf("of a tenant (-want +got):\n%s", diff)
	}
	for _, other := range []string{"", "alice", "alice\x00\x00", store.PrincipalHash("alice\x00")} {
		if got, err := e.StatsOf(t.Context(), other, now.Add(-time.Hour)); len(got) != 0 || err != nil {
			t.Errorf("%q: %+v, %v", other, got, err)
		}
	}
	if got, err := e.StatsOf(t.Context(), "alice\x00", now.Add(time.Hour)); len(got) != 0 || err != nil {
		t.Errorf("later: %+v, %v", got, err)
	}
}
