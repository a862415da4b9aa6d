package opa_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// What goes wrong with one tool is of that tool: the others are decided on. What
// keeps the policy from running is of all of them.
func TestFailureOfOneTool(t *testing.T) {
	t.Parallel()
	for name, rego := range map[string]string{
		"undefined":   `decision := true if input.tool_name != "bad"`,
		"not boolean": "decision := \"yes\" if input.tool_name == \"bad\"\nelse := true",
		"builtin":     "default decision := true\ndecision := false if {\n\tinput.tool_name == \"bad\"\n\tto_number(input.tool_name) > 0\n}",
		"conflict":    "default decision := false\ndecision if true\ndecision := false if input.tool_name == \"bad\"",
		"obligations": "decision := {\"allow\": true, \"obligations\": {\"unknown\": 1}} if input.tool_name == \"bad\"\nelse := true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failed []string
			p := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, policy(rego))}, OnFailure: func(action string) { failed = append(failed, action) }})
			ds := gate.NewChain(p).DecideAll(t.Context(), []gate.Request{*view("good1"), *view("bad"), *view("good2")})
			for i, d := range ds {
				if good := i != 1; good != (d.Effect == gate.Allow) || d.Undecidable() == good || (d.Err == nil) != good {
					t.Errorf("decision %d: %+v", i, d)
				}
			}
			if name == "obligations" { // which the gate reads
				return
			}
			got := p.Failures()
			if len(got) != 1 || got[0].Name != "bad" || got[0].Action != "tool.view" || got[0].Count != 1 || got[0].Text == "" || len(failed) != 1 {
				t.Errorf("failures %+v, counted %q", got, failed)
			}
			if _, err := p.Explain(t.Context(), view("bad")); err == nil || p.Failures()[0].Count != 1 {
				t.Error("an explanation is taken for a decision")
			}
		})
	}
}

func TestFailureOfThePolicy(t *testing.T) {
	t.Parallel()
	p := asking(t, "default decision := true")
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, check := range map[string]func() (gate.Decision, error){
		"nobody waits": func() (gate.Decision, error) { return p.Check(gone, view("a")) },
		"no policy":    func() (gate.Decision, error) { return new(opa.Phase).Check(t.Context(), view("a")) },
	} {
		d, err := check()
		if d.Err = err; err == nil || d.Undecidable() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := p.Failures(); len(got) > 0 {
		t.Errorf("failures %+v", got)
	}
}

// One tool for which the policy takes too long is hidden. Where it takes too long for
// everything, nobody is shown an empty list.
func TestFailureByTime(t *testing.T) {
	t.Parallel()
	p := newPhase(t, opa.Options{Timeout: time.Second, Settings: opa.Settings{
		Path: folder(t, policy(`default decision := true
decision := false if {
	input.tool_name == "bad"
	some a in numbers.range(1, 3000)
	some b in numbers.range(1, 3000)
	a * b < 0
}`)),
	}})
	ds, err := p.CheckAll(t.Context(), []gate.Request{*view("good"), *view("bad")})
	if err != nil || ds[0].Effect != gate.Allow || !ds[1].Undecidable() {
		t.Errorf("decisions %+v, error %v", ds, err)
	}
	ds, err = p.CheckAll(t.Context(), []gate.Request{*view("bad"), *view("bad")})
	if err != nil || ds[0].Err == nil || ds[0].Undecidable() || ds[1].Err == nil || ds[1].Undecidable() {
		t.Errorf("decisions %+v, error %v", ds, err)
	}
}

// Failures are those of the policy in force, and are bounded however many tools fail.
func TestFailuresAreBounded(t *testing.T) {
	t.Parallel()
	dir := folder(t, policy(`decision := true if input.tool_name == "good"`))
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: dir}})
	for i := range 200 {
		if _, err := p.Check(t.Context(), view(fmt.Sprint("tool", i))); err == nil {
			t.Fatal("it was decided")
		}
	}
	if got := len(p.Failures()); got != 64 {
		t.Errorf("%d failures are remembered", got)
	}
	write(t, dir, policy(`decision := true if input.tool_name != "bad"`))
	if changed, err := opa.Replace(p, dir); !changed || err != nil {
		t.Fatalf("replaced %t, error %v", changed, err)
	}
	if got := p.Failures(); len(got) > 0 {
		t.Errorf("failures of the policy before: %+v", got)
	}
	if _, err := p.Check(t.Context(), view("bad")); err == nil || len(p.Failures()) != 1 || !strings.Contains(p.Failures()[0].String(), "tool.view of bad") {
		t.Errorf("failures %+v, error %v", p.Failures(), err)
	}
}

// A server that says of one tool nothing, or that the evaluation failed, works. One
// that says something else does not.
func TestRemoteFailureOfOneTool(t *testing.T) {
	t.Parallel()
	const evaluation = `{"code": "internal_error", "message": "error(s) occurred while evaluating query", "errors": [{"code": "eval_builtin_error", "message": "div: divide by zero"}]}`
	for _, tt := range []struct {
		name, body string
		status     int
		alone      bool
	}{
		{name: "undefined", body: `{}`, alone: true},
		{name: "not boolean", body: `{"result": "yes"}`, alone: true},
		{name: "evaluation", body: evaluation, status: 500, alone: true},
		{name: "cancelled", body: strings.Replace(evaluation, "builtin", "cancel", 1), status: 500},
		{name: "another fault", body: `{"code": "internal_error", "message": "storage"}`, status: 500},
		{name: "evaluation, as 503", body: evaluation, status: 503},
		{name: "text", body: `<html>`},
		{name: "no object", body: `true`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := answering(t, opa.Options{Timeout: 10 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
				question, err := io.ReadAll(r.Body)
				if err == nil && strings.Contains(string(question), "good") {
					io.WriteString(w, `{"result": true}`) //nolint:errcheck // the client sees it
					return
				}
				if tt.status != 0 {
					w.WriteHeader(tt.status)
				}
				io.WriteString(w, tt.body) //nolint:errcheck // the client sees it
			})
			for range 10 { // more than a server may fail in a row
				d, err := p.Check(t.Context(), view("bad"))
				if d.Err = err; err == nil || d.Undecidable() != tt.alone {
					t.Fatalf("error %v", err)
				}
			}
			if d, err := p.Check(t.Context(), view("good")); (err == nil && d.Effect == gate.Allow) != (tt.alone || tt.name == "no object") {
				t.Errorf("the next tool: %+v, error %v", d, err)
			}
		})
	}
}
