//go:build !windows

package daemon_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file holds what follows the gate against what `why` says of it: the operating
// mode, governance, rates, approvals and budgets.

// foretold is what a call, or `why` of it, came to: "allow", or the phase that did not let
// it pass.
func foretold(why *admin.Why) string {
	if why.Call.Effect == "allow" || len(why.Call.Steps) == 0 {
		return why.Call.Effect
	}
	last := why.Call.Steps[len(why.Call.Steps)-1]
	if last.Effect != why.Call.Effect {
		return fmt.Sprintf("%s, by a step that says %s", why.Call.Effect, last.Effect)
	}
	return last.Phase + " " + why.Call.Effect
}

// outcomeOf is the same of the answer to a call.
func outcomeOf(got *response) string {
	for _, path := range [][]string{{"result", "_meta", refusal.Key}, {"error", "data"}} {
		refusal := mcp.Lookup([]byte(got.body), path...)
		phase, refused := mcp.LookupString(refusal, "phase")
		if !refused {
			continue
		}
		if kind, _ := mcp.LookupString(refusal, "kind"); kind == "approval_pending" {
			return phase + " ask"
		}
		return phase + " deny"
	}
	return "allow"
}

// tryCall compares what `why` says of a call with arguments, twice, with what becomes
// of it. It returns that, and where they differ.
func (a *agreement) tryCall(t *testing.T, p *person, c *offered, arguments string) (outcome string, got *response, problem string) {
	t.Helper()
	var before string
	for i := range 2 {
		why, err := a.r.Why(t.Context(), admin.WhyQuestion{Name: c.Exposed, As: p.id, Args: json.RawMessage(arguments)})
		if err != nil {
			return "", nil, err.Error()
		}
		now := foretold(&why)
		if i > 0 && now != before {
			return "", nil, fmt.Sprintf("why says %s and then %s: it has changed something", before, now)
		}
		before = now
	}
	got = a.r.use(t, p.id, c.Exposed, arguments)
	if outcome = outcomeOf(got); outcome != before {
		return outcome, got, fmt.Sprintf("with %s why says %s, and a call comes to %s: %s", arguments, before, outcome, got.body)
	}
	a.seen[outcome]++
	return outcome, got, ""
}

// behind tries calls of what the gate lets pass.
func (a *agreement) behind(t *testing.T, w *world, p *person, c *offered, want answer) string {
	t.Helper()
	if !want.call && want.after == "" {
		return ""
	}
	expect := "allow"
	switch want.after {
	case "":
	case "approval":
		expect = "approval ask"
	default:
		expect = want.after + " deny"
	}
	outcome, got, problem := a.tryCall(t, p, c, `{}`)
	if problem == "" && outcome != expect {
		problem = fmt.Sprintf("a call comes to %s, want %s: %s", outcome, expect, got.body)
	}
	rated := w.has("rate", c) && want.after != "governance"
	if problem == "" && rated {
		if outcome, got, problem = a.tryCall(t, p, c, `{}`); problem == "" && outcome != "rate deny" {
			problem = fmt.Sprintf("a second call comes to %s: %s", outcome, got.body)
		}
	}
	if problem == "" && w.has("pattern", c) {
		if outcome, got, problem = a.tryCall(t, p, c, `{"text":"secret"}`); problem == "" && outcome != "governance deny" {
			problem = fmt.Sprintf("an argument that is forbidden comes to %s: %s", outcome, got.body)
		}
	}
	if problem == "" && expect == "approval ask" && !rated {
		problem = a.answer(t, p, c, got)
	}
	return problem
}

// answer denies a call that waits, takes that back, and approves of it.
func (a *agreement) answer(t *testing.T, p *person, c *offered, got *response) string {
	t.Helper()
	args := `{}`
	for _, step := range []struct{ do, want string }{{admin.Deny, "approval deny"}, {admin.Retract, "approval ask"}, {admin.Approve, ""}} {
		id, _ := mcp.LookupString([]byte(got.body), "result", "_meta", refusal.Key, "approval")
		if _, err := a.r.Answer(t.Context(), id, admin.Answer{Do: step.do}); err != nil {
			return fmt.Sprintf("%s of %q: %v", step.do, id, err)
		}
		outcome, answered, problem := a.tryCall(t, p, c, args)
		if problem != "" {
			return "after " + step.do + ": " + problem
		}
		if got = answered; step.want != "" && outcome != step.want || strings.HasPrefix(outcome, "approval") && step.do == admin.Approve {
			return fmt.Sprintf("after %s a call comes to %s: %s", step.do, outcome, got.body)
		}
	}
	return ""
}
