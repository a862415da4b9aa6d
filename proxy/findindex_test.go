package proxy

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/findview"
)

// discreet is a registry that shows the instructions of servers to alice alone.
type discreet struct{}

func (discreet) Record(context.Context, []*gate.Offer) {}

func (discreet) ShowsInstructionsToAll(string, string) bool { return false }

func (discreet) Held(*gate.Request) bool { return false }

func (discreet) ShowsInstructions(id *gate.Identity, _, _ string) bool {
	return id != nil && id.Subject == "alice"
}

// TestHiddenInstructionsAreNotSearched searches for a word of instructions that are not
// for everybody.
func TestHiddenInstructionsAreNotSearched(t *testing.T) {
	for want, registry := range map[string]Registry{"github__list_issues": nil, "Nothing matches": discreet{}} {
		b := issues(t)
		b.mu.Lock()
		l := *b.listing
		l.Instructions = "Everything about payroll."
		b.listing = &l
		b.mu.Unlock()
		r := newFindRig(t, func(c *Config) { c.Registry = registry }, b)
		if got := string(structured(t, r.call(findview.FindTools, `{"query":"payroll"}`))); !strings.Contains(got, want) {
			t.Errorf("want %s: %s", want, got)
		}
	}
}

// onlyLocal lets callers view what has "local" in its name.
var onlyLocal = rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
	if strings.Contains(r.Exposed, "local") {
		return gate.Decision{Effect: gate.Allow}, nil
	}
	return gate.Decision{Reason: "not local"}, nil
})

var (
	findWorlds  = flag.Int("find-worlds", 20, "pairs of gateways of TestHiddenToolsChangeNothing")
	findQueries = flag.Int("find-queries", 20, "searches of each of them")
)

// TestHiddenToolsChangeNothing compares the answers of two gateways that differ in hidden
// tools alone.
func TestHiddenToolsChangeNothing(t *testing.T) {
	for i := range *findWorlds {
		t.Run(strconv.Itoa(i), func(t *testing.T) { hiddenToolsChangeNothing(t, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
}

func hiddenToolsChangeNothing(t *testing.T, random *rand.Rand) {
	words := strings.Fields("list create delete issue repository file read write search page user message channel send open close table row query")
	some := func() string { return words[random.IntN(len(words))] }
	var seen, all []string
	for i := range 30 {
		item := annotated(fmt.Sprintf("%s_%s_local_%d", some(), some(), i), some()+" "+some()+" "+some(), `{"readOnlyHint":true}`)
		seen, all = append(seen, item), append(all, item)
		all = append(all, annotated(fmt.Sprintf("%s_%s_%d", some(), some(), i), some()+" "+some()+" "+some(), `{"readOnlyHint":true}`))
	}
	var rigs [2]*findRig
	for i, items := range [][]string{seen, all} {
		rigs[i] = newFindRig(t, func(c *Config) { c.Chain = gate.NewChain(onlyLocal) }, newScript(t, "s", mcp.Legacy, items...))
	}
	for range *findQueries {
		text := []string{some(), some(), some(), some()}
		query := `{"query":"` + strings.Join(text[:1+random.IntN(4)], " ") + `","limit":` + strconv.Itoa(1+random.IntN(20)) + `}`
		name := `{"name":"s__` + some() + "_" + some() + `_1","arguments":{}}`
		a, b := rigs[0].call(findview.FindTools, query), rigs[1].call(findview.FindTools, query)
		if a != b {
			t.Fatalf("%s:\n%s\n%s", query, a, b)
		}
		a, b = rigs[0].call(findview.CallRead, name), rigs[1].call(findview.CallRead, name)
		if withoutDecision(a) != withoutDecision(b) {
			t.Fatalf("%s:\n%s\n%s", name, a, b)
		}
	}
}

// withoutDecision removes the id of the call, which is another in each.
func withoutDecision(text string) string {
	before, rest, ok := strings.Cut(text, `"decision_id":"`)
	if !ok {
		return text
	}
	_, after, _ := strings.Cut(rest, `"`)
	return before + after
}

// manyTools are the definitions of n tools whose words differ.
func manyTools(n int) []string {
	verbs := strings.Fields("list create delete update read search send close merge archive copy move rename share")
	nouns := strings.Fields("issue repository file page message channel invoice order customer ticket event calendar contact report table row query image video")
	items := make([]string, n)
	for i := range items {
		verb, noun := verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)]
		items[i] = annotated(fmt.Sprintf("%s_%s_%d", verb, noun, i), fmt.Sprintf("Can %s one %s of a project, by its number %d.", verb, noun, i), `{"readOnlyHint":true}`)
	}
	return items
}

// BenchmarkFind is what the find view costs with 10,000 tools: its list, a search, and a
// call by it beside the same call made directly.
func BenchmarkFind(b *testing.B) {
	backend := newScript(b, "s", mcp.Legacy, manyTools(10_000)...)
	backend.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(mcp.Legacy, `{"content":[]}`), nil
	}
	r := newRig(b, mounted(backend), func(o *Options, _ *Config) { o.Auditor = forgetful{} }).run()
	r.finder.index.Await(b.Context())
	for name, params := range map[string]string{
		"list":   "",
		"search": `"name":"` + findview.FindTools + `","arguments":{"query":"close the old tickets and send a report to the customer"}`,
		"found":  `"name":"` + findview.CallRead + `","arguments":{"name":"s__list_issue_0","arguments":{"title":"x"}}`,
		"direct": `"name":"s__list_issue_0","arguments":{"title":"x"}`,
	} {
		method := mcp.MethodToolsCall
		if params == "" {
			method = mcp.MethodToolsList
		}
		message, err := mcp.Parse([]byte(modernBody("1", method, params, "")), mcp.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		x := &Exchange{
			Message: message, Identity: person("alice"), Scope: Scope{View: FindView}, Era: mcp.Modern, Version: mcp.LatestModern, Transport: "http", responder: nobody{},
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if answer := r.serveRequest(b.Context(), x); answer.fault != nil || isError(answer.result) {
					b.Fatalf("%s %v", answer.result, answer.fault)
				}
			}
		})
	}
}
