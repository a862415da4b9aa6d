//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func factsOfNow(t *testing.T, p *readPage) {
	factsOfState(t, p, printedAs[gatewayStatus](t, p, 0))
}

// gatewayStatus is what is read of the status of a gateway.
type gatewayStatus struct {
	Servers []struct {
		Name, Kind, State, Sandbox, Reason, Breaker string
		Tools, Tokens                               int
	}
	Mode     string
	NotReady string `json:"not_ready"`
	Alarms   []string
}

// factsOfState compares the state on a page, or in an event, with the status.
func factsOfState(t *testing.T, p *readPage, status gatewayStatus) {
	t.Helper()
	var want [][]string
	for _, s := range status.Servers {
		state := s.State
		if s.Breaker != "" {
			state += " breaker " + s.Breaker
		}
		want = append(want, []string{s.Name, s.Kind, state, fmt.Sprint(s.Tools), fmt.Sprint(s.Tokens), s.Sandbox, s.Reason})
	}
	same(t, want, p.columns(t, 0, 0, 1, 2, 3, 4, 5, 6))
	ready := "ready"
	if status.NotReady != "" {
		ready = "not ready: " + status.NotReady
	}
	for _, fact := range append([]string{"Mode " + status.Mode, ready}, status.Alarms...) {
		if !slices.Contains(p.lines, fact) {
			t.Errorf("the page has no %q: %q", fact, p.lines)
		}
	}
}

// auditEntry is what is read of an entry of the audit log.
type auditEntry struct {
	Event         string
	Time          time.Time
	ID            string `json:"call_id"`
	Name, Server  string
	Outcome, Code string
	Principal     struct{ Tenant, Subject string }
	Took          int64  `json:"duration_us"`
	Gateway       int64  `json:"gateway_us"`
	Upstream      int64  `json:"upstream_us"`
	In            int64  `json:"bytes_in"`
	Out           int64  `json:"bytes_out"`
	Hash          string `json:"args_hash"`
	Steps         []struct{ Phase, Verdict, Rule, Revision string }
	Budgets       []struct {
		Name, Key, Unit     string
		Amount, Used, Limit int64
	}
}

func factsOfCalls(t *testing.T, p *readPage) {
	entries := printedAs[[]auditEntry](t, p, 0)
	slices.Reverse(entries) // a command ends with the latest
	same(t, rowsOfCalls(entries), p.columns(t, 0, 1, 2, 3, 4, 5, 6, 7, 8))
}

// rowsOfCalls are entries as the rows of a table of calls.
func rowsOfCalls(entries []auditEntry) (want [][]string) {
	for _, e := range entries {
		outcome := "ok"
		if e.Outcome != "ok" {
			outcome = e.Code
			if e.Outcome == "tool_error" {
				outcome = e.Outcome
			}
		}
		want = append(want, []string{e.Name, e.Server, e.Principal.Tenant, outcome, microsText(e.Took), microsText(e.Upstream), sizeText(e.Out), e.ID})
	}
	return want
}

func factsOfCall(t *testing.T, p *readPage) {
	entries := printedAs[[]auditEntry](t, p, 0)
	e := entries[len(entries)-1]
	for term, want := range map[string]string{
		"Tool": e.Name, "Caller": e.Principal.Subject + " of " + e.Principal.Tenant, "Time": clockText(e.Time) + " UTC", "Arguments": "hash " + e.Hash,
		"Took":  fmt.Sprintf("%s: %s in the gateway, %s in the server", microsText(e.Took), microsText(e.Gateway), microsText(e.Upstream)),
		"Bytes": fmt.Sprintf("%s asked, %s answered", sizeText(e.In), sizeText(e.Out)),
	} {
		if p.pairs[term] != want {
			t.Errorf("%s is %q, and the command says %q", term, p.pairs[term], want)
		}
	}
	var want [][]string
	for _, s := range e.Steps {
		want = append(want, []string{s.Phase, s.Verdict, strings.TrimSpace(s.Rule + " " + s.Revision)})
	}
	same(t, want, p.columns(t, 0, 0, 1, 2)[:len(e.Steps)])
	if len(e.Budgets) == 0 {
		return
	}
	want = nil
	for _, b := range e.Budgets {
		want = append(want, []string{b.Name, b.Key, b.Unit, fmt.Sprint(b.Amount), fmt.Sprint(b.Used), fmt.Sprint(b.Limit)})
	}
	same(t, want, p.columns(t, 1, 0, 1, 2, 3, 4, 5))
}

// catalogEntry is what is read of an entry of the catalog.
type catalogEntry struct {
	ID                                     string `json:"capability_id"`
	Name, Kind, Server, State, Class, Risk string
	Actor, Description                     string
	Changed                                time.Time `json:"changed_at"`
	Hash                                   string    `json:"definition_hash"`
	Held                                   string    `json:"held_hash"`
	Enabled                                bool
	Tokens                                 int
}

// tokensText is what the console makes of the tokens of an entry.
func (e *catalogEntry) tokensText() string {
	if e.Tokens == 0 {
		return "-"
	}
	return fmt.Sprint(e.Tokens)
}

func factsOfCatalog(t *testing.T, p *readPage) {
	entries := printedAs[[]catalogEntry](t, p, 0)
	var want [][]string
	for _, held := range []bool{true, false} { // the page begins with what is held
		for _, e := range entries {
			if (e.Held != "") != held {
				continue
			}
			name := e.Name
			if held {
				name += " held"
			}
			want = append(want, []string{name, e.Kind, e.Server, e.State, strings.TrimSpace(e.Class + " " + e.Risk), e.tokensText(), e.Actor + " " + clockText(e.Changed)})
		}
	}
	same(t, want, p.columns(t, 0, 0, 1, 2, 3, 4, 5, 6))
	// The tokens are those of the list of tools.
	var listed struct {
		Tools []struct {
			Name   string
			Tokens int
		}
	}
	if err := json.Unmarshal(p.by.run(t, "toolgate tools"), &listed); err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for _, tool := range listed.Tools {
		of[tool.Name] = fmt.Sprint(tool.Tokens)
	}
	compared := 0
	for _, row := range p.columns(t, 0, 0, 1, 5) {
		name := strings.TrimSuffix(row[0], " held")
		if tokens, ok := of[name]; ok && row[1] == "tool" {
			compared++
			if row[2] != tokens {
				t.Errorf("%s has %s tokens, and the command says %s", name, row[2], tokens)
			}
		}
	}
	if compared < 2 {
		t.Errorf("only %d tools are compared", compared)
	}
}

func factsOfEntry(t *testing.T, p *readPage) {
	e := printedAs[catalogEntry](t, p, 0)
	for term, want := range map[string]string{"Kind": e.Kind, "Tokens": "about " + e.tokensText() + " wherever it is listed", "State": e.State + ", enabled", "Definition": e.Hash} {
		if p.pairs[term] != want {
			t.Errorf("%s is %q, and the command says %q", term, p.pairs[term], want)
		}
	}
}

// askedPerson is what is read of a question to people.
type askedPerson struct {
	ID, State, Tool, Server, Tenant, Subject string
	Reasons                                  []string
	Asked                                    time.Time `json:"asked_at"`
	Expires                                  time.Time `json:"expires_at"`
}

func factsOfApprovals(t *testing.T, p *readPage) {
	var want [][]string
	for _, q := range printedAs[[]askedPerson](t, p, 0) {
		want = append(want, []string{clockText(q.Asked), q.Tool, q.Subject + " of " + q.Tenant, q.State, clockText(q.Expires), strings.Join(q.Reasons, ", "), q.ID})
	}
	same(t, want, p.columns(t, 0, 0, 1, 2, 3, 4, 5, 6))
}

func factsOfApproval(t *testing.T, p *readPage) {
	q := printedAs[askedPerson](t, p, 0)
	for term, want := range map[string]string{
		"Tool": q.Tool + " on " + q.Server, "Caller": q.Subject + " of " + q.Tenant, "State": q.State, "Asked": clockText(q.Asked) + " UTC", "Until": clockText(q.Expires) + " UTC", "Why": strings.Join(q.Reasons, ", "),
	} {
		if p.pairs[term] != want {
			t.Errorf("%s is %q, and the command says %q", term, p.pairs[term], want)
		}
	}
}

func factsOfBudgets(t *testing.T, p *readPage) {
	var want [][]string
	for _, b := range printedAs[[]struct {
		Budget, Per, Unit, Window string
		Owner                     []string
		Used, Limit               int64
		Reset                     time.Time `json:"reset_at"`
	}](t, p, 0) {
		want = append(want, []string{b.Budget, b.Per, strings.Join(b.Owner, ", "), fmt.Sprint(b.Used), fmt.Sprint(b.Limit), b.Unit, b.Window, clockText(b.Reset)})
	}
	same(t, want, p.columns(t, 0, 0, 1, 2, 3, 4, 6, 7, 8))
	want = nil
	for _, u := range printedAs[struct {
		Usage []struct {
			Group                    map[string]string
			Calls, Failures, Refused int64
			P50                      float64 `json:"p50_ms"`
			P95                      float64 `json:"p95_ms"`
			In                       int64   `json:"bytes_in"`
			Out                      int64   `json:"bytes_out"`
		}
	}](t, p, 1).Usage {
		want = append(want, []string{u.Group["tool"], fmt.Sprint(u.Calls), fmt.Sprint(u.Failures), fmt.Sprint(u.Refused), fmt.Sprint(u.P50, " ms"), fmt.Sprint(u.P95, " ms"), sizeText(u.In), sizeText(u.Out)})
	}
	same(t, want, p.columns(t, 1, 0, 1, 2, 3, 4, 5, 6, 7))
}

func factsOfAccess(t *testing.T, p *readPage) {
	type verdict struct {
		Steps []struct{ Phase, Effect string }
	}
	why := printedAs[struct{ View, Call verdict }](t, p, 0)
	for i, v := range []verdict{why.View, why.Call} {
		var want [][]string
		for _, s := range v.Steps {
			want = append(want, []string{s.Phase, s.Effect})
		}
		same(t, want, p.columns(t, i, 0, 1))
	}
	var want [][]string
	for _, c := range printedAs[[]struct {
		Caller, Reason   string
		View, Call, Asks bool
	}](t, p, 1) {
		calls := map[bool]string{true: "yes", false: "no"}[c.Call]
		if c.Asks {
			calls = "after an approval"
		}
		want = append(want, []string{c.Caller, map[bool]string{true: "yes", false: "no"}[c.View], calls, c.Reason})
	}
	same(t, want, p.columns(t, 2, 0, 1, 2, 3))
}

func factsOfTry(t *testing.T, p *readPage) {
	var want [][]string
	for _, tool := range printedAs[struct {
		Tools []struct{ Name, Description string }
	}](t, p, 0).Tools {
		want = append(want, []string{tool.Name, tool.Description})
	}
	same(t, want, p.columns(t, 0, 0, 2))
}
