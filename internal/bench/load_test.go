package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLoadOrders gives the load generator orders as the runner does.
func TestLoadOrders(t *testing.T) {
	up := newFastServer(false, false, 3)
	url := testServer(t, up)
	orders := `{"do":"echo","count":5,"most":1000000000}
{"do":"open","count":4}
{"do":"echo","count":50,"most":60000000000}
{"do":"blob","count":6,"size":1000,"most":60000000000}
{"do":"tools","count":8,"most":60000000000}
{"do":"end"}
{"do":"churn","count":9,"most":60000000000}
{"do":"dance"}
`
	var out bytes.Buffer
	l := &load{url: url, era: "legacy", prefixes: []string{""}}
	if err := l.serve(t.Context(), strings.NewReader(orders), &out); err != nil {
		t.Fatal(err)
	}
	type line struct {
		Done, Failed, Items int
		Why                 string
	}
	want := []line{
		{Failed: 1, Why: "no clients are open"},
		{Done: 4},
		{Done: 50},
		{Done: 6},
		{Done: 8, Items: 3 + ownTools},
		{Done: 4},
		{Done: 9},
		{Failed: 1, Why: `unknown order "dance"`},
	}
	var got []line
	for answers := json.NewDecoder(&out); answers.More(); {
		var r report
		if err := answers.Decode(&r); err != nil {
			t.Fatal(err)
		}
		got = append(got, line{r.Done, r.Failed, r.Items, r.Why})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	if open, all := up.open.Load(), up.last.Load(); open != 0 || all != 4+9 {
		t.Errorf("%d sessions were opened and %d are left, want 13 and 0", all, open)
	}
}

// TestLoop checks counts and moments with calls that take a known time.
func TestLoop(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		o    order
		call func(n int) error // the n-th call from 1
		want report
	}{
		{
			"all right",
			order{Count: 7, Most: time.Minute},
			func(int) error { return nil },
			report{Done: 7, Took: 7 * time.Second, P50: time.Second, P99: time.Second},
		},
		{
			"out of time",
			order{Count: 7, Most: 2500 * time.Millisecond},
			func(int) error { return nil },
			report{Done: 3, Took: 3 * time.Second, P50: time.Second, P99: time.Second},
		},
		{
			"one fails",
			order{Count: 7, Most: time.Minute},
			func(n int) error { return map[int]error{3: broken}[n] },
			report{Done: 2, Failed: 1, Why: "broken", Took: 3 * time.Second, P50: time.Second, P99: time.Second, FirstFailure: 3e9, LastFailure: 3e9},
		},
		{
			"some fail and are tolerated",
			order{Count: 5, Most: time.Minute, Tolerate: true},
			func(n int) error { return map[int]error{2: broken, 3: broken}[n] },
			report{
				Done: 3, Failed: 2, Why: "broken", Took: 5*time.Second + 2*restAfterFailure, P50: time.Second, P99: time.Second,
				FirstFailure: 2e9, LastFailure: 3e9 + int64(restAfterFailure), Recovered: 4e9 + 2*int64(restAfterFailure),
			},
		},
		{
			"it stays broken",
			order{Count: 2, Most: time.Minute, Tolerate: true},
			func(int) error { return broken },
			report{Failed: 2, Why: "broken", Took: 2*time.Second + 2*restAfterFailure, FirstFailure: 1e9, LastFailure: 2e9 + int64(restAfterFailure)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now().UnixNano()
				l := &load{clients: []*client{{}}}
				n := 0
				got, err := l.loop(t.Context(), &tt.o, func(*client, context.Context) error {
					time.Sleep(time.Second)
					n++
					return tt.call(n)
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, moment := range []*int64{&got.FirstFailure, &got.LastFailure, &got.Recovered} {
					if *moment != 0 {
						*moment -= began
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("report (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestSum(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts []tally
		want  report
	}{
		{"nothing", nil, report{}},
		{
			"the last to recover counts",
			[]tally{
				{report: report{Done: 2, Failed: 1, Why: "later", FirstFailure: 20, LastFailure: 20, Recovered: 50}},
				{report: report{Done: 3, Failed: 2, Why: "first", FirstFailure: 10, LastFailure: 30, Recovered: 40}},
				{report: report{Done: 4}},
			},
			report{Done: 9, Failed: 3, Why: "first", FirstFailure: 10, LastFailure: 30, Recovered: 50},
		},
		{
			"one never recovers",
			[]tally{
				{report: report{Failed: 1, Why: "x", FirstFailure: 1, LastFailure: 1, Recovered: 5}},
				{report: report{Failed: 1, Why: "y", FirstFailure: 2, LastFailure: 2}, down: true},
			},
			report{Failed: 2, Why: "x", FirstFailure: 1, LastFailure: 2},
		},
		{
			"latencies",
			[]tally{{samples: []time.Duration{4, 1}}, {samples: []time.Duration{3, 2}}},
			report{P50: 3, P99: 4},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sum(tt.parts)); diff != "" {
				t.Errorf("sum (-want +got):\n%s", diff)
			}
		})
	}
}
