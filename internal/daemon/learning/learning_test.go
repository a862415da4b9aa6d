package learning_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/internal/daemon/learning"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/findview"
)

func TestMain(m *testing.M) {
	// These tests wait for what the store writes once a second.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// ignored is an auditor that keeps nothing.
type ignored struct{}

func (ignored) Begin(*audit.Entry) error  { return nil }
func (ignored) End(*audit.Entry) error    { return nil }
func (ignored) Append(*audit.Entry) error { return nil }
func (ignored) Healthy() error            { return nil }

// rig is a running service over a catalog of three tools.
type rig struct {
	*learning.Service
	t     *testing.T
	store *store.Learning
	mode  atomic.Value
	view  *find.View
	audit proxy.Auditor

	compared atomic.Int32
}

func newRig(t *testing.T, mode findview.Learning) *rig {
	r := &rig{t: t, store: store.NewLearning(storetest.Running(t))}
	r.mode.Store(mode)
	var items []find.Item
	for _, name := range []string{"s__mail", "s__post", "s__weather"} {
		items = append(items, find.Item{Kind: mcp.Tool, Server: "s", Name: name, Hash: name})
	}
	r.view = find.Build(items, nil, nil).View(func(int) bool { return true })
	r.Service = learning.New(learning.Options{
		Log: slog.New(slog.DiscardHandler), Store: r.store, Redact: &hidden.Secrets{},
		Compared: func(int, int) { r.compared.Add(1) },
		Mode:     func() findview.Learning { return r.mode.Load().(findview.Learning) }, Advisers: func() []find.Adviser { return []find.Adviser{r.Service} },
	})
	r.audit = r.Auditor(ignored{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func caller(tenant, subject string) *gate.Identity {
	return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Tenant: tenant, Subject: subject}})
}

func (r *rig) search(id *gate.Identity, query string, shown ...string) {
	r.Searched(proxy.Searched{Identity: id, Query: find.Query{Text: query, Limit: 8}, View: r.view, Shown: shown})
}

// call ends a call of a tool, at a time after now.
func (r *rig) call(id *gate.Identity, tool string, outcome audit.Outcome, after time.Duration) {
	r.t.Helper()
	e := &audit.Entry{
		Time: time.Now().Add(after), Method: mcp.MethodToolsCall, Kind: "tool", Name: tool, Server: "s", Outcome: outcome,
		Principal: audit.Principal{Issuer: id.Issuer, Tenant: id.Tenant, Subject: id.Subject},
	}
	if err := r.audit.End(e); err != nil {
		r.t.Error(err)
	}
}

// pairs makes a last pair and waits until it is kept. It returns the others of all tenants
// as texts, the latest of each first.
func (r *rig) pairs() (list []string) {
	r.t.Helper()
	last := caller("last", "last")
	r.search(last, "the last", "s__last")
	r.call(last, "s__last", audit.OutcomeOK, 0)
	testwait.Until(r.t, 10*time.Second, "the last pair", func() bool {
		tenants, err := r.store.Tenants(context.Background())
		return err == nil && slices.Contains(tenants, "last")
	})
	for _, tenant := range []string{"acme", "other"} {
		all, err := r.store.Pairs(context.Background(), tenant)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, p := range all.Pairs {
			list = append(list, fmt.Sprintf("%s: %s: %s at %d, %d", tenant, p.Query, p.Tool, p.Place, p.Shadow))
		}
	}
	return list
}

// TestPairs pairs searches with what happens after them.
func TestPairs(t *testing.T) {
	alice, bob, other := caller("acme", "alice"), caller("acme", "bob"), caller("other", "alice")
	for name, c := range map[string]struct {
		do   func(r *rig)
		want []string
	}{
		"a call of a hit": {func(r *rig) { r.call(alice, "s__post", audit.OutcomeOK, time.Minute) }, []string{"acme: tell them: s__post at 2, 0"}},
		"two hits of one search": {func(r *rig) {
			r.call(alice, "s__post", audit.OutcomeOK, 0)
			r.call(alice, "s__mail", audit.OutcomeOK, time.Second)
		}, []string{"acme: tell them: s__mail at 1, 0", "acme: tell them: s__post at 2, 0"}},
		"the same hit twice": {func(r *rig) {
			r.call(alice, "s__post", audit.OutcomeOK, 0)
			r.call(alice, "s__post", audit.OutcomeOK, 0)
		}, []string{"acme: tell them: s__post at 2, 0"}},
		"the latest search that showed it": {func(r *rig) {
			r.search(alice, "write to them", "s__post")
			r.search(alice, "is it sunny", "s__weather")
			r.call(alice, "s__post", audit.OutcomeOK, 0)
		}, []string{"acme: write to them: s__post at 1, 0"}},
		"a call that failed":     {func(r *rig) { r.call(alice, "s__post", audit.OutcomeToolError, 0) }, nil},
		"a call that is refused": {func(r *rig) { r.call(alice, "s__post", audit.OutcomeDenied, 0) }, nil},
		"what was not shown":     {func(r *rig) { r.call(alice, "s__weather", audit.OutcomeOK, 0) }, nil},
		"a search for prompts": {func(r *rig) {
			r.Searched(proxy.Searched{Identity: bob, Query: find.Query{Text: "tell them", Kinds: []mcp.Kind{mcp.Prompt}}, View: r.view, Shown: []string{"s__post"}})
			r.call(bob, "s__post", audit.OutcomeOK, 0)
		}, nil},
		"a search that was forgotten": {func(r *rig) {
			if _, err := r.Forget(context.Background(), "acme"); err != nil {
				r.t.Error(err)
			}
			r.call(alice, "s__post", audit.OutcomeOK, time.Minute)
		}, nil},
		"a search that was forgotten elsewhere": {func(r *rig) {
			if _, err := r.store.Forget(context.Background(), "acme"); err != nil {
				r.t.Error(err)
			}
			r.call(alice, "s__post", audit.OutcomeOK, time.Minute)
		}, nil},
		"a search after one that was forgotten": {func(r *rig) {
			if _, err := r.Forget(context.Background(), "acme"); err != nil {
				r.t.Error(err)
			}
			r.search(alice, "tell them again", "s__post")
			r.call(alice, "s__post", audit.OutcomeOK, time.Minute)
		}, []string{"acme: tell them again: s__post at 1, 0"}},
		"much later":     {func(r *rig) { r.call(alice, "s__post", audit.OutcomeOK, 11*time.Minute) }, nil},
		"another caller": {func(r *rig) { r.call(bob, "s__post", audit.OutcomeOK, 0) }, nil},
		"another tenant": {func(r *rig) { r.call(other, "s__post", audit.OutcomeOK, 0) }, nil},
		"more searches than are kept": {func(r *rig) {
			for range 4 {
				r.search(alice, "is it sunny", "s__weather")
			}
			r.call(alice, "s__post", audit.OutcomeOK, 0)
		}, nil},
		"a secret in the words": {func(r *rig) {
			r.search(bob, "push with ghp_"+strings.Repeat("a1B2", 9), "s__post")
			r.call(bob, "s__post", audit.OutcomeOK, 0)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, findview.LearningRecord)
			r.search(alice, "tell them", "s__mail", "s__post")
			c.do(r)
			if diff := cmp.Diff(c.want, r.pairs()); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingIsKeptWhileOff neither keeps searches nor calls.
func TestNothingIsKeptWhileOff(t *testing.T) {
	r, alice := newRig(t, findview.LearningOff), caller("acme", "alice")
	r.search(alice, "tell them", "s__mail")
	r.mode.Store(findview.LearningRecord)
	r.call(alice, "s__mail", audit.OutcomeOK, 0)
	r.search(alice, "tell them", "s__mail")
	r.mode.Store(findview.LearningOff)
	r.call(alice, "s__mail", audit.OutcomeOK, 0)
	r.mode.Store(findview.LearningRecord)
	if got := r.pairs(); got != nil {
		t.Errorf("kept: %q", got)
	}
}

// TestOnlyLiveRanks trains a model, and ranks with it where the operator says so and
// nowhere else.
func TestOnlyLiveRanks(t *testing.T) {
	r := newRig(t, findview.LearningRecord)
	var known []store.SearchPair
	for _, who := range []string{"a", "b", "c"} {
		known = append(known, store.SearchPair{Tenant: "acme", Caller: who, Server: "s", Tool: "s__post", Query: "congratulate somebody", At: time.Now(), Place: 2})
	}
	known = append(known, store.SearchPair{Tenant: "acme", Caller: "a", Server: "s", Tool: "s__mail", Query: "congratulate", At: time.Now(), Place: 1})
	if err := r.store.Add(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	did, err := r.Train(t.Context(), "", 3)
	want := []admin.Trained{{Tenant: "acme", Recorded: 4, Pairs: 3, Callers: 3, Tools: 1, Left: 1}}
	if diff := cmp.Diff(want, did); diff != "" || err != nil {
		t.Fatalf("trained (-want +got), %v:\n%s", err, diff)
	}
	says := func(ctx context.Context, tenant string) bool {
		boost := r.Advise(ctx, find.Caller{Tenant: tenant}, "congratulate her", r.view)
		return boost != nil && boost(1) > 0
	}
	for mode, live := range map[findview.Learning]bool{findview.LearningOff: false, findview.LearningRecord: false, findview.LearningShadow: false, findview.LearningLive: true} {
		r.mode.Store(mode)
		if got := says(t.Context(), "acme"); got != live {
			t.Errorf("%s: ranked by it: %v", mode, got)
		}
		if says(t.Context(), "other") || says(t.Context(), "") {
			t.Errorf("%s: another tenant is ranked by it", mode)
		}
		if !says(learning.With(t.Context(), true), "acme") || says(learning.With(t.Context(), false), "acme") || says(learning.With(t.Context(), true), "other") {
			t.Errorf("%s: what is asked for is not what is ranked by", mode)
		}
	}
	r.mode.Store(findview.LearningShadow)
	alice := caller("acme", "alice")
	r.search(alice, "congratulate her", "s__mail", "s__post")
	r.call(alice, "s__post", audit.OutcomeOK, 0)
	r.search(alice, "weather", "s__mail", "s__weather")
	r.call(alice, "s__weather", audit.OutcomeOK, 0)
	r.call(alice, "s__mail", audit.OutcomeOK, 0)
	testwait.Until(t, 10*time.Second, "the pairs", func() bool {
		list, err := r.store.Pairs(context.Background(), "acme")
		return err == nil && len(list.Pairs) == len(known)+3
	})
	did, err = r.Train(t.Context(), "acme", 3)
	if err != nil || len(did) != 1 {
		t.Fatal(did, err)
	}
	if diff := cmp.Diff(&admin.Shadow{Pairs: 3, Served: (0.5 + 0.5 + 1) / 3, Learned: (1 + 1) / 3., Better: 2, Worse: 1}, did[0].Shadow); diff != "" {
		t.Errorf("compared (-want +got):\n%s", diff)
	}
	if r.compared.Load() != 3 {
		t.Errorf("%d calls were compared", r.compared.Load())
	}
	if n, err := r.Forget(t.Context(), "acme"); err != nil || n != len(known)+3 || says(learning.With(t.Context(), true), "acme") {
		t.Errorf("forgotten: %d, %v", n, err)
	}
}
