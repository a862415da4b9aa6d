package opa_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/mcp"
)

func TestInput(t *testing.T) {
	t.Parallel()
	r := call("fs__read", `{"path": "/tmp", "n": 9007199254740993}`)
	r.Capsule = "research"
	in, err := opa.Document(opa.Options{Settings: opa.Settings{Path: "x"}}, r)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"action": "tool.request", "kind": "tool", "resource": "fs__read", "tool_names": []string{"fs__read"}, "tool_name": "fs__read", "original_name": "read",
		"server": "fs", "capability_id": "cap_1", "capsule": "research",
		"tenant": "acme", "persona_id": "bot", "user_id": "alice", "issuer": "https://issuer.example", "agent": "",
		"groups": []string{"dev"}, "scopes": []string{"read"}, "plan": "team",
		"args":    map[string]any{"path": "/tmp", "n": json.Number("9007199254740993")},
		"context": map[string]any{"tenant_id": "acme", "persona_id": "bot", "issuer": "https://issuer.example", "plan": "team", "capsule": "research"},
	}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind   mcp.Kind
		action gate.Action
		want   string
	}{
		{mcp.Tool, gate.View, "tool.view"},
		{mcp.Tool, gate.Call, "invoke"},
		{mcp.Tool, gate.Enable, "add"},
		{mcp.NoKind, gate.Enable, "add"},
		{mcp.Prompt, gate.View, "prompt.view"},
		{mcp.Prompt, gate.Call, "prompt.request"},
		{mcp.Resource, gate.View, "resource.view"},
		{mcp.Resource, gate.Call, "fetch"},
		{mcp.Template, gate.View, "resource.view"},
		{mcp.Template, gate.Call, "fetch"},
	} {
		r := call("x", "")
		r.Kind, r.Action = tt.kind, tt.action
		in, err := opa.Document(opa.Options{Settings: opa.Settings{Path: "x", Actions: map[string]string{"tool.request": "invoke", "tool.enable": "add", "resource.request": "fetch"}}}, r)
		if err != nil || in["action"] != tt.want {
			t.Errorf("%v %s: %v, error %v, want %s", tt.kind, tt.action, in["action"], err, tt.want)
		}
		if _, ok := in["args"]; ok != (tt.action == gate.Call) {
			t.Errorf("%v %s: args there: %v", tt.kind, tt.action, ok)
		}
	}
}

// A policy compares numbers as they came.
func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	p := asking(t, `default decision := false
decision if input.args.n == 9007199254740993
decision if input.args.big == 123456789012345678901234567890`)
	wantAllow(t, decide(t, p, call("x", `{"n": 9007199254740993}`)))
	wantAllow(t, decide(t, p, call("x", `{"big": 123456789012345678901234567890}`)))
	wantDeny(t, decide(t, p, call("x", `{"n": 9007199254740992}`)), "policy_denied")
	wantDeny(t, decide(t, p, call("x", `{"big": 123456789012345678901234567891}`)), "policy_denied")
}

// Large arguments are shown with their longest strings replaced, as few as
// will do, to a policy that knows of it.
func TestLargeArguments(t *testing.T) {
	t.Parallel()
	long, longer := strings.Repeat("a", 100_000), strings.Repeat("b", 200_000)
	sum := sha256.Sum256([]byte(longer))
	raw := `{"path": "/tmp", "a/b": {"c~": ["` + long + `", "` + longer + `"]}, "n": 9007199254740993}`
	in, err := opa.Document(opa.Options{Settings: opa.Settings{Path: "x"}}, call("fs__write", raw))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"path": "/tmp", "n": json.Number("9007199254740993"),
		"a/b": map[string]any{"c~": []any{long, map[string]any{"size": json.Number("200000"), "sha256": hex.EncodeToString(sum[:])}}},
	}
	if diff := cmp.Diff(want, in["args"]); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/a~1b/c~0/1"}, in["args_replaced"]); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}

	// What no rule reads is of any length; what one reads is shown.
	open := asking(t, "decision := true")
	wantAllow(t, decide(t, open, call("fs__write", raw)))
	aware := "default decision := true\ndecision := false if count(input.args_replaced) > 3\n"
	short := `{"list": [` + strings.Repeat(`"`+strings.Repeat("c", 1000)+`",`, 300) + `1]}`
	d := decide(t, asking(t, aware), call("fs__write", short))
	wantDeny(t, d, "its arguments have 300913 bytes after their long strings were replaced, and the policy is shown at most 262144 (limits.policy_input)")
	small := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, policy(aware))}, InputLimits: opa.InputLimits{PolicyInput: 10}})
	wantAllow(t, decide(t, small, call("fs__write", `{"a": 12}`)))
	wantDeny(t, decide(t, small, call("fs__write", `{"a": 1234}`)),
		"its arguments have 11 bytes after their long strings were replaced, and the policy is shown at most 10 (limits.policy_input)")
}

// A rule that judges texts and sizes judges what is delivered: arguments of which the
// policy would be shown less are refused, unless it looks at what was left out.
func TestPolicyJudgesWhatIsDelivered(t *testing.T) {
	t.Parallel()
	secret := "-----BEGIN RSA PRIVATE KEY-----"
	long := `{"text": "` + secret + strings.Repeat(" ", 256<<10) + `"}`
	const refused = "its arguments have 262187 bytes, and the policy is shown at most 262144 (limits.policy_input); " +
		"a policy that is to judge longer ones has to look at input.args_replaced"
	for name, tt := range map[string]struct {
		rego   string
		reason string // of the long arguments; empty for an allow
	}{
		"walk": {`default decision := true
decision := false if {
	walk(input.args, [_, text])
	is_string(text)
	contains(text, "PRIVATE KEY")
}`, refused},
		"marshal": {"default decision := true\ndecision := false if contains(json.marshal(input.args), \"PRIVATE KEY\")\n", refused},
		"whole":   {"default decision := true\ndecision := false if contains(json.marshal(input), \"PRIVATE KEY\")\n", refused},
		"name":    {"default decision := true\ndecision := false if {\n\tsome name in [\"args\", \"args_replaced\"]\n\tcontains(json.marshal(input[name]), \"PRIVATE KEY\")\n}\n", refused},
		"count":   {"default decision := false\ndecision if count(input.args.text) <= 1000\n", refused},
		"elsewhere": {`default decision := true
decision := false if contains(json.marshal(input.args), "PRIVATE KEY")
unused if input.args_replaced`, refused},
		"with": {"d if not contains(json.marshal(input.args), \"PRIVATE KEY\")\ndefault decision := false\ndecision if d with input.args_replaced as []\n", refused},
		"aware": {`default decision := true
decision := {"allow": false, "reason": "unseen"} if blind
blind if helper(input.tool_name)
helper(_) if count(input.args_replaced) > 0`, "unseen"},
		"aware and not concerned": {"default decision := true\ndecision := false if \"/path\" in input.args_replaced\n", ""},
		"reads none":              {"default decision := true\ndecision := false if input.tool_name == \"other\"\n", ""},
	} {
		p := asking(t, tt.rego)
		d := decide(t, p, call("send", long))
		if tt.reason == "" {
			wantAllow(t, d)
		} else {
			wantDeny(t, d, tt.reason)
		}
		if e, err := p.Explain(t.Context(), call("send", long)); err != nil || e.Effect != d.Effect || e.Reason != d.Reason || (e.Change == nil) != (tt.reason == "") {
			t.Errorf("%s: explained as %+v, error %v", name, e, err)
		}
	}
}

// An argument that a tenant restricts does not pass by being too long to be
// shown.
func TestRestrictedArgumentThatIsTooLong(t *testing.T) {
	t.Parallel()
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: defaultPolicy}, Data: opa.Data{
		ToolCatalog:          map[string]opa.Tool{"w": {Enabled: true}},
		TenantRestrictedArgs: map[string]map[string]map[string][]any{"acme": {"w": {"a/b": {"x"}}}},
	}})
	long := strings.Repeat("a", 300_000)
	wantDeny(t, decide(t, p, call("w", `{"a/b": "`+long+`"}`)), "restricted_arg:a/b")
	wantDeny(t, decide(t, p, call("w", `{"a/b": ["`+long+`"]}`)), "restricted_arg:a/b")
	wantAllow(t, decide(t, p, call("w", `{"other": "`+long+`"}`)))
}

func TestArgumentsThatAreNoObject(t *testing.T) {
	t.Parallel()
	p := asking(t, "decision := true")
	wantAllow(t, decide(t, p, call("x", ` {}`))) // which is kept, and not for the others
	wantAllow(t, decide(t, p, call("x", strings.Repeat(" ", 300_000)+"{}")))
	for _, args := range []string{`[]`, `null`, `"a"`, `7`, strings.Repeat(" ", 300_000) + "[]"} {
		wantDeny(t, decide(t, p, call("x", args)), "policy_error")
	}
}

// Whatever arguments are valid, a policy sees at most the limit, and what is
// not replaced as it came.
func FuzzArguments(f *testing.F) {
	f.Add(`{"a": "` + strings.Repeat("x", 3000) + `", "b": [1, {"c": "` + strings.Repeat("y", 2000) + `"}]}`)
	f.Add(`{"n": 1e400, "m": -0, "big": 123456789012345678901234567890}`)
	f.Add(`{"a/b~": ["é\u0000"]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if mcp.Validate([]byte(raw), mcp.Limits{}) != nil || !strings.HasPrefix(strings.TrimSpace(raw), "{") {
			t.Skip()
		}
		const limit = 2048
		in, err := opa.Document(opa.Options{Settings: opa.Settings{Path: "x"}, InputLimits: opa.InputLimits{PolicyInput: limit}}, call("x", raw))
		if err != nil {
			if len(raw) <= limit {
				t.Errorf("small arguments are refused: %v", err)
			}
			return
		}
		replaced, _ := in["args_replaced"].([]string)
		if (len(replaced) > 0) != (len(raw) > limit) {
			t.Errorf("%d replaced in %d bytes", len(replaced), len(raw))
		}
		if len(replaced) > 0 {
			return
		}
		d := json.NewDecoder(strings.NewReader(raw))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, in["args"]); diff != "" {
			t.Errorf("arguments (-want +got):\n%s", diff)
		}
	})
}

func TestEndlessNumberIsRefused(t *testing.T) {
	t.Parallel()
	p := asking(t, "default decision := false\ndecision if input.args.n + 1 > 5\n")
	for _, n := range []string{strings.Repeat("9", 1001), "0." + strings.Repeat("1", 1000), "1e9999999", "1e-9999999", "1E+1001", "1e99999999999999999999"} {
		d, err := p.Check(t.Context(), call("x", `{"n": `+n+`}`))
		if err == nil || d.Effect == gate.Allow {
			t.Errorf("a number of %d bytes: %v, %v", len(n), d.Effect, err)
		}
	}
	if d, err := p.Check(t.Context(), call("x", `{"n": `+strings.Repeat("9", 1000)+`}`)); err != nil || d.Effect != gate.Allow {
		t.Errorf("a number of 1000 digits: %v, %v", d, err)
	}
	if d, err := p.Check(t.Context(), call("x", `{"n": 1e1000}`)); err != nil || d.Effect != gate.Allow {
		t.Errorf("a large exponent: %v, %v", d, err)
	}
}

// FuzzValues holds the input that the engine is given against the one that a
// person is shown.
func FuzzValues(f *testing.F) {
	for _, args := range []string{
		"", "{}", `{"path": "/tmp", "n": 9007199254740993}`, `{"a": [1, -0.5e3, true, false, null, {"b": {}}], "": "x\u00e9\n\ud83d\ude00"}`,
		`[1]`, `"text"`, ` {"a" : [ ] , "b":[[],[{}]]}`, `{"content": "` + strings.Repeat("long ", 300) + `"}`, `{"n": 1e400, "m": -0}`,
	} {
		f.Add(args, 1024)
	}
	f.Fuzz(func(t *testing.T, args string, limit int) {
		if args != "" && mcp.Validate([]byte(args), mcp.Limits{Depth: 64}) != nil {
			return
		}
		for _, r := range []*gate.Request{call("fs__read", args), view("fs__read")} {
			given, plain, err := opa.Values(opa.Options{Settings: opa.Settings{Path: "x"}, InputLimits: opa.InputLimits{PolicyInput: units.Size(limit&0xffff + 1)}}, r)
			if err != nil {
				t.Fatal(err)
			}
			if given != nil && given.Compare(plain) != 0 {
				t.Errorf("%s: given %v, shown %v", args, given, plain)
			}
		}
	})
}
