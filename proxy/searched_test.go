package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/learn"
	"github.com/toolgate/toolgate/proxy/findview"
)

// TestSearched is told of searches that were answered, and of no descriptions and
// refusals.
func TestSearched(t *testing.T) {
	var told []Searched
	rig := newRig(t, mounted(issues(t)), func(o *Options, _ *Config) {
		o.Searched = func(s Searched) { told = append(told, s) }
	})
	r := &findRig{rig.run(), t}
	r.call(findview.FindTools, `{"query":"list issues","limit":2}`)
	r.call(findview.FindTools, `{"query":""}`)
	r.call(findview.DescribeTools, `{"names":["github__list_issues"]}`)
	if len(told) != 1 {
		t.Fatalf("told of %d searches", len(told))
	}
	s := told[0]
	if s.Query.Text != "list issues" || s.Query.Limit != 2 || !slices.Contains(s.Shown, "github__list_issues") || s.Identity == nil || s.View.Len() == 0 {
		t.Errorf("told: %+v", s)
	}
}

// learned is an adviser with one model for everybody.
type learned struct{ m *learn.Model }

func (l learned) Advise(_ context.Context, _ find.Caller, query string, v *find.View) func(item int) float64 {
	return l.m.Advise(query, v)
}

// TestHiddenToolsChangeNothingLearned compares the answers of two gateways that rank by
// what was learned, and differ in hidden tools and the searches for these.
func TestHiddenToolsChangeNothingLearned(t *testing.T) {
	for i := range *findWorlds {
		t.Run(strconv.Itoa(i), func(t *testing.T) { hiddenToolsChangeNothingLearned(t, rand.New(rand.NewPCG(3, uint64(i)))) })
	}
}

func hiddenToolsChangeNothingLearned(t *testing.T, random *rand.Rand) {
	words := strings.Fields("list create delete issue repository file read write search page user message channel send open close table row query")
	some := func(n int) string {
		list := make([]string, 1+random.IntN(n))
		for i := range list {
			list[i] = words[random.IntN(len(words))]
		}
		return strings.Join(list, " ")
	}
	var items [2][]string
	var past [2][]learn.Pair
	add := func(name string, worlds ...int) {
		item := annotated(name, some(4), `{"readOnlyHint":true}`)
		queries := make([]string, 3*random.IntN(3))
		for i := range queries {
			queries[i] = some(5)
		}
		for _, w := range worlds {
			items[w] = append(items[w], item)
			for i, q := range queries {
				past[w] = append(past[w], learn.Pair{Query: q, Server: "s", Tool: "s__" + name, Caller: fmt.Sprint(i % 3)})
			}
		}
	}
	for i := range 25 {
		add(fmt.Sprintf("%s_local_%d", strings.ReplaceAll(some(2), " ", "_"), i), 0, 1)
		add(fmt.Sprintf("%s_%d", strings.ReplaceAll(some(2), " ", "_"), i), 1)
	}
	var rigs [2]*findRig
	for i := range rigs {
		r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, items[i]...)), func(o *Options, c *Config) {
			o.Limits.JSONWait = time.Hour
			c.Chain, o.Advisers = gate.NewChain(onlyLocal), []find.Adviser{learned{learn.Train(past[i], 3)}}
		})
		rigs[i] = &findRig{r.run(), t}
	}
	for range *findQueries {
		query := fmt.Sprintf(`{"query":"%s","limit":%d}`, some(5), 1+random.IntN(20))
		if a, b := rigs[0].call(findview.FindTools, query), rigs[1].call(findview.FindTools, query); a != b {
			t.Fatalf("%s:\n%s\n%s", query, a, b)
		}
	}
}
