//go:build !windows

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
)

// taking is a section whose callers come with tokens of issuers that do not
// answer, and with the API key of ci.
func taking(issuers ...string) map[string]any {
	var jwt []any
	for _, issuer := range issuers {
		jwt = append(jwt, map[string]any{"issuer": issuer, "audience": "x", "jwks": issuer + "/keys", "claims": map[string]any{"tenant": "org"}})
	}
	auth := map[string]any{
		"keys":   []any{map[string]any{"id": "ci", "sha256": sum("k"), "subject": "builder", "groups": []string{"dev"}}},
		"scopes": map[string]any{"required": []any{map[string]any{"match": "a__echo", "scopes": "write"}}},
	}
	if jwt != nil {
		auth["jwt"] = jwt
	}
	return map[string]any{
		"auth": auth,
		"capsules": map[string]any{
			"dev": map[string]any{"visible": []string{"a__*"}, "callable": []string{"a__pid", "a__echo"}, "groups": []string{"dev"}},
			"bot": map[string]any{"visible": []string{"a__fail"}, "callable": []string{"a__fail"}, "personas": []string{"bot"}},
		},
	}
}

const (
	oneIssuer   = "http://127.0.0.1:1/one"
	otherIssuer = "http://127.0.0.1:1/two"
)

// Callers that have no API key are asked about by what their tokens would say.
func TestWhyOfAssumedCallers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, taking(oneIssuer))
	h.up(t)
	why := func(name string, args ...string) (w admin.Why, note string) {
		t.Helper()
		o := h.run(t, append([]string{"why", name, "--file", h.file, "-o", "json"}, args...)...)
		if o.code != exitOK {
			t.Fatalf("why %s %v: exit code %d: %s", name, args, o.code, o.stderr)
		}
		if err := json.Unmarshal([]byte(o.stdout), &w); err != nil {
			t.Fatal(err)
		}
		return w, o.stderr
	}
	for _, tt := range []struct {
		name, args, view, call, caller string
		assumed                        bool
	}{
		{"a__pid", "--as ci", "allow", "allow", "builder", false},
		{"a__pid", "--as builder", "allow", "allow", "builder", false},
		{"a__pid", "--as alice", "deny", "deny", "alice", true},
		{"a__pid", "--as alice --groups dev,ops", "allow", "allow", "alice", true},
		{"a__pid", "--as alice --tenant acme --groups dev", "allow", "allow", "alice of acme", true},
		{"a__fail", "--as alice --groups dev", "allow", "deny", "alice", true},
		{"a__fail", "--as alice --persona bot", "allow", "allow", "alice", true},
		{"a__echo", "--as alice --groups dev", "allow", "deny", "alice", true},
		{"a__echo", "--as alice --groups dev --scopes write", "allow", "allow", "alice", true},
		{"a__pid", "--as ci --persona bot", "deny", "deny", "ci", true}, // exactly as described
		{"a__pid", "--as alice --groups dev --issuer " + oneIssuer, "allow", "allow", "alice", true},
		{"a__pid", "--as alice --groups dev --issuer toolgate:keys", "allow", "allow", "alice", true},
	} {
		w, said := why(tt.name, strings.Fields(tt.args)...)
		if w.View.Effect != tt.view || w.Call.Effect != tt.call || w.Caller != tt.caller || w.Assumed != tt.assumed {
			t.Errorf("%s %s: sees %s, calls %s, %s, assumed %t", tt.name, tt.args, w.View.Effect, w.Call.Effect, w.Caller, w.Assumed)
		}
		if strings.Contains(said, "assumed: a token of "+tt.caller+" ") != tt.assumed {
			t.Errorf("%s: said %q", tt.args, said)
		}
	}
	if w, _ := why("a__echo", "--as", "alice", "--groups", "dev"); w.Call.Steps[0].Phase != "scopes" || !strings.Contains(w.Call.Reason, "lacks the scope write") {
		t.Errorf("%+v", w.Call)
	}

	out := h.ok(t, "who-can", "a__fail", "--file", h.file)
	if strings.Count(out, "\n") != 2 || !strings.Contains(out, "builder") {
		t.Errorf("who-can: %s", out)
	}
	o := h.run(t, "who-can", "a__fail", "--file", h.file, "--as", "alice", "--persona", "bot", "-o", "json")
	var who []admin.WhoCan
	if err := json.Unmarshal([]byte(o.stdout), &who); err != nil || len(who) != 2 {
		t.Fatalf("who-can: %s, %v", o.stdout, err)
	}
	if who[0].Assumed || who[0].Call || !who[1].Assumed || !who[1].Call || who[1].Caller != "alice" || !strings.Contains(o.stderr, "assumed: ") {
		t.Errorf("who-can: %+v, %s", who, o.stderr)
	}
	if out := h.ok(t, "who-can", "a__fail", "--file", h.file, "--as", "ci"); strings.Count(out, "\n") != 2 {
		t.Errorf("somebody who is known is listed twice: %s", out)
	}
	for _, args := range []string{"--groups dev", "--as alice --issuer https://evil.example --groups dev"} {
		if o := h.run(t, append([]string{"why", "a__pid", "--file", h.file}, strings.Fields(args)...)...); o.code == exitOK {
			t.Errorf("%s: %s", args, o.stdout)
		}
	}
}
