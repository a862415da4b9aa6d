//go:build e2e && !windows

package cli

import (
	"encoding/json"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// What a policy cannot say, it has not said again: it fails, it reads what is not in
// the log, or it attaches a condition.
func TestPolicyReplayOfDoubt(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	always := func(name, decision string) {
		h.keep(t, name+"/p.rego", "package toolgate\n"+decision+"\n", 0o600)
	}
	always("allows", `decision := {"allow": true}`)
	// A first question, which no policy may fail, is about somebody else.
	always("fails", `default decision := {"allow": true}
decision := {"allow": to_number(concat("", ["x", input.user_id])) == 1} if input.user_id == "local"`)
	always("failing", `default decision := {"allow": true}
decision := {"allow": to_number(concat("", ["x", input.user_id])) == 1} if input.action == "tool.request"`)
	always("obliges", `decision := {"allow": true, "obligations": {"mfa": true}}`)
	always("asks", `decision := {"allow": true, "obligations": {"approval": true}}`)
	always("scopes", `decision := {"allow": count(input.scopes) == 0}`)
	always("capsule", `decision := {"allow": input.context.capsule == ""}`)
	always("context", `decision := {"allow": input.context.tenant_id == "default"}`)
	always("computed", `decision := {"allow": count([x | some x in ["capsule"]; input[x] != ""]) == 0}`)
	always("clock", `decision := {"allow": time.now_ns() > 0}`)
	for _, tt := range []struct {
		old  string
		want map[string]replayed
		now  map[string]string
	}{
		{"allows", map[string]replayed{
			"allows": {Same: 2}, "context": {Same: 2},
			"fails": {Changed: make([]replayedCall, 2)}, "failing": {Changed: make([]replayedCall, 2)},
			"obliges": {Changed: make([]replayedCall, 2)}, "asks": {Changed: make([]replayedCall, 2)},
			"scopes": {Undecidable: 2}, "capsule": {Undecidable: 2}, "computed": {Undecidable: 2}, "clock": {Undecidable: 2},
		}, map[string]string{"fails": "error", "failing": "error", "obliges": "error", "asks": "ask"}},
		{"failing", map[string]replayed{
			"failing": {Undecidable: 2}, "allows": {Changed: make([]replayedCall, 2)}, "scopes": {Undecidable: 2},
		}, map[string]string{"allows": "allow"}},
		{"asks", map[string]replayed{
			"asks": {Same: 2}, "allows": {Undecidable: 2}, "fails": {Changed: make([]replayedCall, 2)},
		}, map[string]string{"fails": "error"}},
	} {
		h.write(t, servers{"a": fake()}, map[string]any{
			"opa": map[string]any{"path": tt.old}, "approvals": map[string]any{"wait": "1s"}, "audit": map[string]any{"decision_inputs": true, "path": "audit-" + tt.old + ".jsonl"},
		})
		p, url := h.up(t)
		client := newClient(t)
		for range 2 {
			post(t, client, url, "", mcp.MethodToolsCall, "a__pid", `"name":"a__pid","arguments":{},`)
		}
		p.stop(t, syscall.SIGTERM)
		for folder, want := range tt.want {
			var got replayed
			if err := json.Unmarshal([]byte(h.ok(t, "policy", "replay", h.path(folder), "--file", h.file, "-o", "json")), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Changed) != len(want.Changed) || got.Same != want.Same || got.Undecidable != want.Undecidable || got.NotAsked != 0 {
				t.Errorf("%s after %s: %+v", folder, tt.old, got)
			}
			for _, c := range got.Changed {
				if c.Now != tt.now[folder] || c.Was == c.Now {
					t.Errorf("%s after %s: %+v", folder, tt.old, c)
				}
			}
		}
	}
}
