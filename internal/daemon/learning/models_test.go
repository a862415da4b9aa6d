package learning

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/findview"
)

// stopped returns a service that does not run.
func stopped(t *testing.T, mode findview.Learning) *Service {
	return New(Options{
		Log: slog.New(slog.DiscardHandler), Store: store.NewLearning(storetest.Running(t)), Redact: &hidden.Secrets{},
		Mode: func() findview.Learning { return mode }, Advisers: func() []find.Adviser { return nil },
	})
}

// add keeps a search of three callers of a tenant.
func add(t *testing.T, s *Service, tenant, query string, at time.Time) {
	t.Helper()
	var list []store.SearchPair
	for _, who := range []string{"a", "b", "c"} {
		list = append(list, store.SearchPair{Tenant: tenant, Caller: who, Server: "s", Tool: "s__post", Query: query, At: at, Place: 1})
	}
	if err := s.o.Store.Add(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

func train(t *testing.T, s *Service, tenant string) {
	t.Helper()
	if _, err := s.Train(t.Context(), tenant, 3); err != nil {
		t.Fatal(err)
	}
}

// TestTrainBesideForget forgets a tenant while its model is made. Whichever ends first,
// nothing is left.
func TestTrainBesideForget(t *testing.T) {
	s := stopped(t, findview.LearningLive)
	for range 30 {
		add(t, s, "acme", "congratulate somebody", time.Now())
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := s.Train(t.Context(), "acme", 3); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if _, err := s.Forget(t.Context(), "acme"); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		list, err := s.o.Store.Models(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 0 || s.model("acme") != nil {
			t.Fatalf("what was forgotten is stored again: %d models", len(list))
		}
	}
}

// TestOtherModelsStay reads what has changed alone.
func TestOtherModelsStay(t *testing.T) {
	s := stopped(t, findview.LearningLive)
	add(t, s, "acme", "congratulate somebody", time.Now())
	add(t, s, "other", "send flowers", time.Now())
	train(t, s, "")
	acme, other := s.model("acme"), s.model("other")
	train(t, s, "acme")
	if s.model("other") != other || s.model("acme") == acme || acme == nil || other == nil {
		t.Error("a model that has not changed is read again, or one that has is not")
	}
}

// TestWordsGoWithTheirSearches removes words from a model when the searches are too old to
// be kept.
func TestWordsGoWithTheirSearches(t *testing.T) {
	s, now := stopped(t, findview.LearningLive), time.Now()
	add(t, s, "acme", "congratulate somebody", now)
	add(t, s, "acme", "send flowers", now.Add(-80*24*time.Hour))
	add(t, s, "other", "send flowers", now.Add(-80*24*time.Hour))
	train(t, s, "")
	w := &worker{Service: s, recent: recent{}}
	words := func(tenant string) string {
		if err := s.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, _, err := s.o.Store.Model(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		return string(m.Model)
	}
	if err := w.prune(t.Context(), now); err != nil || !strings.Contains(words("acme"), "flower") {
		t.Errorf("%v; acme: %s", err, words("acme"))
	}
	if err := w.prune(t.Context(), now.Add(15*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := words("acme"); strings.Contains(got, "flower") || !strings.Contains(got, "congratul") || words("other") != "" || s.model("other") != nil {
		t.Errorf("acme: %s, other: %s", got, words("other"))
	}
}

// TestQueueHoldsNoIndex lets the index of a search go that is not ranked again.
func TestQueueHoldsNoIndex(t *testing.T) {
	who := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Tenant: "acme", Subject: "a"}})
	view := find.Build(nil, nil, nil).View(func(int) bool { return true })
	for _, mode := range []findview.Learning{findview.LearningRecord, findview.LearningShadow, findview.LearningLive} {
		s := stopped(t, mode)
		ask := func() bool {
			s.Searched(proxy.Searched{Identity: who, Query: find.Query{Text: "send"}, View: view, Shown: []string{"s__post"}})
			return (<-s.events).search.View != nil
		}
		if ask() {
			t.Errorf("%s: an index is held although there is no model", mode)
		}
		add(t, s, "acme", "send flowers", time.Now())
		train(t, s, "acme")
		if got, want := ask(), mode == findview.LearningShadow; got != want {
			t.Errorf("%s: an index is held: %v", mode, got)
		}
	}
}

// noting is an adviser that notes how it was asked.
type noting struct{ aside []bool }

func (n *noting) Advise(ctx context.Context, _ find.Caller, _ string, _ *find.View) func(int) float64 {
	n.aside = append(n.aside, find.IsAside(ctx))
	return nil
}

// TestShadowAsksNobody ranks for the comparison without what others wait for, and no
// deeper than the answer was.
func TestShadowAsksNobody(t *testing.T) {
	s, n := stopped(t, findview.LearningShadow), &noting{}
	s.o.Advisers = func() []find.Adviser { return []find.Adviser{n} }
	var items []find.Item
	for _, name := range []string{"send_a", "send_b", "send_c", "send_d"} {
		items = append(items, find.Item{Name: name, Hash: name, Server: "s"})
	}
	who := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Tenant: "acme", Subject: "a"}})
	w := &worker{Service: s, recent: recent{}}
	got := w.shadow(t.Context(), &proxy.Searched{Identity: who, Query: find.Query{Text: "send", Limit: 3}, View: find.Build(items, nil, nil).View(func(int) bool { return true })})
	if len(got) != 3 || len(n.aside) != 1 || !n.aside[0] {
		t.Errorf("ranked %q, asked aside %v", got, n.aside)
	}
}
