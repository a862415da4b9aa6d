//go:build !windows

package main

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// A policy is tried on what has happened: what changes is said, and what cannot be
// known without arguments too.
func TestPolicyReplay(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.keep(t, "old/p.rego", "package toolgate\ndecision := {\"allow\": true}\n", 0o600)
	h.keep(t, "new/p.rego", "package toolgate\ndefault decision := {\"allow\": true}\ndecision := {\"allow\": false, \"reason\": \"not this\"} if input.tool_name == \"a__pid\"\n", 0o600)
	h.keep(t, "args/p.rego", "package toolgate\ndefault decision := {\"allow\": true}\ndecision := {\"allow\": false, \"reason\": \"that text\"} if input.args.text == \"bad\"\n", 0o600)
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("inputs kept %v", kept), func(t *testing.T) {
			h.write(t, servers{"a": fake()}, map[string]any{
				"opa": map[string]any{"path": "old"}, "audit": map[string]any{"decision_inputs": kept, "path": fmt.Sprintf("audit-%v.jsonl", kept)},
			})
			p, url := h.up(t)
			client := newClient(t)
			for _, text := range []string{"good", "bad"} {
				post(t, client, url, "", mcp.MethodToolsCall, "a__echo", `"name":"a__echo","arguments":{"text":"`+text+`"},`)
			}
			post(t, client, url, "", mcp.MethodToolsCall, "a__pid", `"name":"a__pid","arguments":{},`)
			p.stop(t, syscall.SIGTERM)
			for folder, want := range map[string]replayed{
				"old":  {Same: 3},
				"new":  {Same: 2, Changed: make([]replayedCall, 1)},
				"args": map[bool]replayed{false: {Undecidable: 3}, true: {Same: 2, Changed: make([]replayedCall, 1)}}[kept],
			} {
				var got replayed
				if err := json.Unmarshal([]byte(h.ok(t, "policy", "replay", h.path(folder), "--file", h.file, "-o", "json")), &got); err != nil {
					t.Fatal(err)
				}
				if len(got.Changed) != len(want.Changed) || got.Same != want.Same || got.Undecidable != want.Undecidable || got.NotAsked != 0 {
					t.Errorf("%s: %+v", folder, got)
				}
			}
		})
	}
}
