//go:build e2e && unix

package e2e

import (
	"fmt"
	"testing"
	"time"
)

func factsOfRuns(t *testing.T, p *readPage) {
	var want [][]string
	for _, r := range printedAs[[]struct {
		ID, Agent, Caller, State string
		Created                  time.Time `json:"created_at"`
		Changed                  time.Time `json:"changed_at"`
	}](t, p, 0) {
		want = append(want, []string{clockText(r.Created), r.Agent, r.Caller, r.State, clockText(r.Changed), r.ID})
	}
	if want == nil {
		want = [][]string{{"no agent has run"}}
	}
	same(t, want, p.columns(t, 0, 0, 1, 2, 3, 4, 5))
}

func factsOfJobs(t *testing.T, p *readPage) {
	var want [][]string
	for _, j := range printedAs[[]struct {
		ID, Queue, Tool, Caller string
		Task, Repeats           bool
		Since, Deadline         time.Time
	}](t, p, 0) {
		as, again := map[bool]string{true: "task", false: "call"}[j.Task], map[bool]string{true: "yes", false: "no"}[j.Repeats]
		want = append(want, []string{clockText(j.Since), j.Queue, j.Tool, j.Caller, as, again, clockText(j.Deadline), j.ID})
	}
	if want == nil {
		want = [][]string{{"no call of this gateway is in a queue for workers"}}
	}
	same(t, want, p.columns(t, 0, 0, 1, 2, 3, 4, 5, 6, 7))
}

func factsOfSearches(t *testing.T, p *readPage) {
	var want [][]string
	for _, s := range printedAs[[]struct {
		At                                  time.Time
		Tenant, Caller, Server, Tool, Query string
		Place                               int
	}](t, p, 0) {
		want = append(want, []string{clockText(s.At), s.Tool, s.Server, s.Tenant, fmt.Sprint(s.Place), s.Query, s.Caller})
	}
	if want == nil {
		want = [][]string{{"no search in that time ended in a successful call; find.learning must be record, shadow or live"}}
	}
	same(t, want, p.columns(t, 0, 0, 1, 2, 3, 4, 5, 6))
}

func factsOfReplicas(t *testing.T, p *readPage) {
	all := printedAs[struct {
		Replicas []struct {
			ID, Address, Version        string
			Draining, Self              bool
			Sessions, Calls, Runs, Jobs int
			Started                     time.Time
		}
	}](t, p, 0).Replicas
	var want [][]string
	for _, r := range all {
		state := map[bool]string{true: "drains", false: "serves"}[r.Draining]
		if r.Self {
			state += ", this one"
		}
		want = append(want, []string{r.ID, r.Address, r.Version, state, fmt.Sprint(r.Sessions), fmt.Sprint(r.Calls), fmt.Sprint(r.Runs), fmt.Sprint(r.Jobs), clockText(r.Started)})
	}
	if len(all) == 0 {
		want = [][]string{{"this gateway is alone: cluster.advertise is not set"}}
	}
	same(t, want, p.columns(t, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8))
}
