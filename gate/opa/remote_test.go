package opa_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/testwait"
)

// answering returns a phase that asks a server.
func answering(t *testing.T, o opa.Options, answer http.HandlerFunc) *opa.Phase {
	t.Helper()
	s := httptest.NewServer(answer)
	p := newPhase(t, func() opa.Options { o.URL = s.URL + "/"; return o }())
	running(t, p) // which gives the connections back at its end
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return p
}

func TestRemoteAnswers(t *testing.T) {
	t.Parallel()
	const provenance = `, "decision_id": "id-7", "provenance": {"bundles": {"b": {"revision": "2"}, "a": {"revision": "1"}}}`
	tests := []struct {
		name, body, reason string
		status             int
		allow              bool
	}{
		{name: "true", body: `{"result": true` + provenance + `}`, allow: true},
		{name: "object", body: `{"result": {"allow": true}` + provenance + `}`, allow: true},
		{name: "false", body: `{"result": false` + provenance + `}`, reason: "policy_denied"},
		{name: "reason", body: `{"result": {"allow": false, "reason": "because"}` + provenance + `}`, reason: "because"},
		{name: "undefined", body: `{}`, reason: "policy_error"},
		{name: "null", body: `{"result": null}`, reason: "policy_error"},
		{name: "string", body: `{"result": "true"}`, reason: "policy_error"},
		{name: "allow is a string", body: `{"result": {"allow": "true"}}`, reason: "policy_error"},
		{name: "list", body: `[{"result": true}]`, reason: "policy_error"},
		{name: "Result", body: `{"Result": true}`, reason: "policy_error"},
		{name: "result twice", body: `{"result": false, "result": true}`, reason: "policy_error"},
		{name: "two answers", body: `{"result": true}{"result": true}`, reason: "policy_error"},
		{name: "cut off", body: `{"result": tru`, reason: "policy_error"},
		{name: "empty", body: ``, reason: "policy_error"},
		{name: "text", body: `<html>`, reason: "policy_error"},
		{name: "500", body: `{"result": true}`, status: 500, reason: "policy_error"},
		{name: "404", body: `{"result": true}`, status: 404, reason: "policy_error"},
		{name: "201", body: `{"result": true}`, status: 201, reason: "policy_error"},
		{name: "too large", body: `{"result": true` + strings.Repeat(" ", 1<<20) + `}`, reason: "policy_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := answering(t, opa.Options{Timeout: 10 * time.Second}, func(w http.ResponseWriter, _ *http.Request) {
				if tt.status != 0 {
					w.WriteHeader(tt.status)
				}
				io.WriteString(w, tt.body) //nolint:errcheck // the client sees it
			})
			d := decide(t, p, call("fs__read", `{}`))
			if d.ID == "" || (d.Effect == gate.Allow) != tt.allow || d.Reason != tt.reason || (d.Err != nil) != (tt.reason == "policy_error") {
				t.Errorf("decision %+v", d)
			}
			if strings.Contains(tt.body, "decision_id") && (d.ID != "id-7" || d.Revision != "a=1,b=2") {
				t.Errorf("id %q, revision %q", d.ID, d.Revision)
			}
		})
	}
}

// The server is asked as its documentation says, with the input of the
// embedded engine and exact numbers.
func TestRemoteQuestion(t *testing.T) {
	t.Parallel()
	var got struct {
		path, query, method, kind, auth string
		body                            map[string]any
	}
	o := opa.Options{Settings: opa.Settings{Decision: `data.authz["a/b"].allow`}, Header: http.Header{"Authorization": {"Bearer secret"}}, Timeout: 10 * time.Second}
	p := answering(t, o, func(w http.ResponseWriter, r *http.Request) {
		got.path, got.query, got.method = r.URL.EscapedPath(), r.URL.RawQuery, r.Method
		got.kind, got.auth = r.Header.Get("Content-Type"), r.Header.Get("Authorization")
		d := json.NewDecoder(r.Body)
		d.UseNumber()
		if err := d.Decode(&got.body); err != nil {
			t.Error(err)
		}
		io.WriteString(w, `{"result": true}`) //nolint:errcheck // the client sees it
	})
	r := call("fs__read", `{"n": 9007199254740993}`)
	if d := decide(t, p, r); d.Effect != gate.Allow || d.ID == "" {
		t.Errorf("decision %+v", d)
	}
	if got.path != "/v1/data/authz/a%2Fb/allow" || got.method != http.MethodPost || got.kind != "application/json" || got.auth != "Bearer secret" {
		t.Errorf("question %+v", got)
	}
	if !strings.Contains(got.query, "strict-builtin-errors=true") {
		t.Errorf("query %q", got.query)
	}
	input, _ := got.body["input"].(map[string]any)
	args, _ := input["args"].(map[string]any)
	if input["action"] != "tool.request" || args["n"] != json.Number("9007199254740993") {
		t.Errorf("input %+v", input)
	}
	e, err := p.Explain(t.Context(), r)
	if err != nil || e.Effect != gate.Allow || !strings.Contains(e.Question, "/v1/data/authz/a%2Fb/allow") || !strings.Contains(e.Question, "9007199254740993") || strings.Contains(e.Question, "secret") {
		t.Errorf("explanation %+v, error %v", e, err)
	}
}

// A redirect is no answer: it would send the question elsewhere.
func TestRemoteRedirectDenies(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	p := answering(t, opa.Options{Timeout: 10 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			io.WriteString(w, `{"result": true}`) //nolint:errcheck // the client sees it
			return
		}
		http.Redirect(w, r, "/v1/data/other", http.StatusTemporaryRedirect)
	})
	if d := decide(t, p, view("a")); d.Effect != gate.Deny || d.Err == nil || asked.Load() != 1 {
		t.Errorf("decision %+v after %d questions", d, asked.Load())
	}
}

// maxProbes is far below the 500 questions of a list.
const maxProbes = 60

// A server that does not answer costs the first few decisions their bound, and
// the others nothing; when it answers again, so do we.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	var frozen atomic.Bool
	release := make(chan struct{})
	frozen.Store(true)
	p := answering(t, opa.Options{Timeout: 200 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if frozen.Load() {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return
		}
		io.WriteString(w, `{"result": true}`) //nolint:errcheck // the client sees it
	})
	defer close(release)
	rs := make([]gate.Request, 500)
	for i := range rs {
		rs[i] = *view(fmt.Sprint(i))
	}
	ds, err := p.CheckAll(t.Context(), rs)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		if d.Effect != gate.Deny || d.Err == nil || d.Reason != "policy_error" {
			t.Fatalf("decision %+v", d)
		}
	}
	// Those that were out when it was left alone, and one question each second.
	if n := asked.Load(); n > 16+maxProbes {
		t.Errorf("the server was asked %d times", n)
	}
	frozen.Store(false)
	testwait.Until(t, patience, "an answer", func() bool { d, err := p.Check(t.Context(), view("a")); return err == nil && d.Effect == gate.Allow })
}

// At most 16 decisions of a list are asked for at a time.
func TestRemoteListIsBounded(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	p := answering(t, opa.Options{Timeout: 10 * time.Second, ListTimeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		var q struct {
			Input struct {
				ToolName string `json:"tool_name"`
			} `json:"input"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		<-time.After(time.Millisecond) // so that others are there, too
		fmt.Fprintf(w, `{"result": {"allow": false, "reason": %q}}`, q.Input.ToolName)
	})
	rs := make([]gate.Request, 200)
	for i := range rs {
		rs[i] = *view(fmt.Sprint("t", i))
	}
	ds, err := p.CheckAll(t.Context(), rs)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range ds {
		if d.Reason != rs[i].Exposed {
			t.Fatalf("decision %d: %+v", i, d)
		}
	}
	if m := most.Load(); m < 2 || m > 16 {
		t.Errorf("%d at a time", m)
	}
}

// A dead server denies, and a circuit counts no question that its asker gave
// up.
func TestDeadServer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	p := newPhase(t, opa.Options{Settings: opa.Settings{URL: s.URL}})
	for range 10 {
		if d, err := p.Check(t.Context(), view("a")); err == nil || d.Effect != gate.Deny || d.Reason != "policy_error" || d.ID == "" {
			t.Errorf("decision %+v, error %v", d, err)
		}
	}
	if err := p.SetData(opa.Data{GlobalToolDeny: []string{"a"}}); err != nil {
		t.Error(err)
	}
}

// What the policy of a server reads is not known: it is asked about arguments that
// it is shown whole, or not at all.
func TestRemotePolicyIsShownArgumentsWhole(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	p := answering(t, opa.Options{Timeout: 10 * time.Second}, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		io.WriteString(w, `{"result": true}`) //nolint:errcheck // the client sees it
	})
	if d := decide(t, p, call("send", `{"text": "`+strings.Repeat("a", 262_100)+`"}`)); d.Effect != gate.Allow {
		t.Errorf("decision %+v", d)
	}
	d := decide(t, p, call("send", `{"text": "`+strings.Repeat("a", 262_144)+`"}`))
	const reason = "its arguments have 262156 bytes, and a policy server is shown at most 262144 (limits.policy_input)"
	if d.Effect != gate.Deny || d.Reason != reason || d.Err != nil || asked.Load() != 1 {
		t.Errorf("decision %+v, asked %d times", d, asked.Load())
	}
}
