package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

// executionsFound checks that executions are found page by page, each once, and that each
// question is answered by an index.
func executionsFound(t *testing.T, s *store.Store) {
	e := s.Executions(0)
	ctx, cancel := context.WithCancel(context.Background())
	start := time.Now().Add(-time.Hour).Truncate(time.Minute)
	const count = 250
	for i := range count {
		x := store.Execution{
			At: start.Add(time.Duration(i/10) * time.Second), CallID: fmt.Sprint(i), Server: "a", Tool: "a__read", Tenant: "acme", Principal: "alice", Success: true,
		}
		if i%5 == 0 {
			x.Tool, x.Principal, x.ErrorClass, x.Success = "a__write", "bob", "tool_error", false
		}
		e.Add(x)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	cancel()
	must(t, <-ended)
	for name, tt := range map[string]struct {
		q    store.ExecutionQuery
		want int
	}{
		"all":                  {store.ExecutionQuery{}, count},
		"a tool":               {store.ExecutionQuery{Tool: "a__write"}, count / 5},
		"a server":             {store.ExecutionQuery{Server: "a"}, count},
		"another server":       {store.ExecutionQuery{Server: "b"}, 0},
		"a tenant":             {store.ExecutionQuery{Tenant: "acme"}, count},
		"failures":             {store.ExecutionQuery{Class: "any"}, count / 5},
		"successes":            {store.ExecutionQuery{Class: "none"}, count - count/5},
		"a class":              {store.ExecutionQuery{Class: "tool_error"}, count / 5},
		"a principal":          {store.ExecutionQuery{Principal: "bob"}, count / 5},
		"since":                {store.ExecutionQuery{Since: start.Add(5 * time.Second)}, count - 50},
		"what is no statement": {store.ExecutionQuery{Tool: "' OR 1=1 --\x00"}, 0},
	} {
		q, seen, last := tt.q, map[string]bool{}, int64(0)
		for q.Limit = 7; ; {
			page, err := e.Find(t.Context(), &q)
			must(t, err)
			for _, x := range page {
				if seen[x.CallID] {
					t.Fatalf("%s: %s twice", name, x.CallID)
				}
				seen[x.CallID] = true
				if at := x.At.UnixMilli(); last != 0 && at > last {
					t.Fatalf("%s: out of order", name)
				}
				last = x.At.UnixMilli()
			}
			if len(page) < q.Limit {
				break
			}
			q.BeforeAt, q.BeforeRow = page[len(page)-1].At, page[len(page)-1].Row
		}
		if len(seen) != tt.want {
			t.Errorf("%s: %d found, not %d", name, len(seen), tt.want)
		}
		text, args := q.Statement()
		indexed(t, s, name, text, args)
	}
	text, args, err := store.UsageStatement(start, "tool")
	must(t, err)
	indexed(t, s, "usage", text, args)
	text, args = store.CountStatement(start, time.Minute)
	indexed(t, s, "a chart", text, args)
	over, err := e.CountOver(t.Context(), start, 10*time.Second)
	must(t, err)
	if len(over) != 3 || over[0].Calls != 100 || over[0].Failures != 20 || over[2].Calls != 50 || !over[0].At.Equal(start) {
		t.Errorf("over time: %+v", over)
	}
	if !slices.IsSortedFunc(over, func(a, b store.ExecutionCount) int { return a.At.Compare(b.At) }) {
		t.Errorf("not in order: %+v", over)
	}
}

// executionsInParts checks that executions that are written at different times stay what they
// were: the log uses its memory again.
func executionsInParts(t *testing.T, s *store.Store) {
	e := s.Executions(0)
	start := time.Now().Truncate(time.Second)
	want := make(map[string]string)
	for _, count := range []int{1, 64, 700, 3, 1300, 65, 2} {
		for range count {
			id := fmt.Sprint(len(want))
			want[id] = "tool " + id
			e.Add(store.Execution{At: start, CallID: id, Tool: want[id], Success: true})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, e.Run(ctx))
	}
	got := make(map[string]string)
	for q := (store.ExecutionQuery{Limit: 100}); ; {
		page, err := e.Find(t.Context(), &q)
		must(t, err)
		for _, x := range page {
			got[x.CallID] = x.Tool
		}
		if len(page) < q.Limit {
			break
		}
		q.BeforeAt, q.BeforeRow = page[len(page)-1].At, page[len(page)-1].Row
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("executions (-want +got):\n%s", diff)
	}
}

// indexed checks that a database answers a statement by an index of the log of executions.
func indexed(t *testing.T, s *store.Store, name, text string, args []any) {
	t.Helper()
	if plan := Plan(t, s, text, args...); !strings.Contains(plan, "tool_execution_log_at") && !strings.Contains(plan, "tool_execution_log_principal") {
		t.Errorf("%s is answered without an index:\n%s", name, plan)
	}
}
