//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
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

// The running gateway decides as the command does that reads the log itself, with its own
// catalog and the data of its own policy.
func TestPolicyReplayAtGateway(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.keep(t, "old/p.rego", "package toolgate\ndecision := {\"allow\": true}\n", 0o600)
	h.keep(t, "old/lists/data.json", `{"closed":["a__pid"]}`, 0o600)
	h.keep(t, "new/p.rego", "package toolgate\ndefault decision := {\"allow\": true}\ndecision := {\"allow\": false, \"reason\": \"not this\"} if input.tool_name == \"a__pid\"\n", 0o600)
	h.keep(t, "data/p.rego", "package toolgate\ndefault decision := {\"allow\": true}\ndecision := {\"allow\": false, \"reason\": \"closed\"} if {\n\tinput.tool_name in data.lists.closed\n\tdata.tools[input.tool_name].kind == \"tool\"\n}\n", 0o600)
	h.keep(t, "wrong/p.rego", "package toolgate\ndecision := tru\n", 0o600)
	h.write(t, servers{"a": fake()}, map[string]any{"opa": map[string]any{"path": "old"}})
	p, url := h.up(t)
	defer p.stop(t, syscall.SIGTERM)
	client := newClient(t)
	for range 2 {
		post(t, client, url, "", mcp.MethodToolsCall, "a__pid", `"name":"a__pid","arguments":{},`)
		post(t, client, url, "", mcp.MethodToolsCall, "a__echo", `"name":"a__echo","arguments":{"text":"x"},`)
	}
	testwait.Until(t, patience, "the calls are in the audit log", func() bool {
		return strings.Count(h.ok(t, "audit", "search", "kind=tool", "-c", h.file, "-o", "name"), "\n") == 4
	})
	said := func(args ...string) (got replayed) {
		t.Helper()
		if err := json.Unmarshal([]byte(h.ok(t, append([]string{"policy", "replay", "--file", h.file, "-o", "json"}, args...)...)), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if diff := cmp.Diff(said(h.path("new")), said(h.path("new"), "--gateway")); diff != "" {
		t.Errorf("(-command +gateway):\n%s", diff)
	}
	if got := said(h.path("data"), "--gateway"); len(got.Changed) != 2 || got.Same != 2 || got.Changed[0].Reason != "closed" {
		t.Errorf("with the data of the gateway: %+v", got)
	}
	for args, want := range map[string]string{"wrong": "p.rego:2: rego_unsafe_var_error", "none": "there is no folder"} {
		if o := h.run(t, "policy", "replay", h.path(args), "--gateway", "--file", h.file); o.code != exitConfig || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %+v", args, o)
		}
	}
	if o := h.run(t, "policy", "replay", "--interceptors", "--gateway", "--file", h.file); o.code != exitUsage {
		t.Errorf("interceptors at the gateway: %+v", o)
	}
}

// A policy of a folder needs no signature, whatever the bundle of the file needs.
func TestPolicyReplayBesideASignedBundle(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.keep(t, "new/p.rego", "package toolgate\ndecision := {\"allow\": true}\n", 0o600)
	h.write(t, servers{"a": fake()}, nil)
	p, url := h.up(t)
	post(t, newClient(t), url, "", mcp.MethodToolsCall, "a__pid", `"name":"a__pid","arguments":{},`)
	p.stop(t, syscall.SIGTERM)
	h.keep(t, "key.pem", "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n", 0o600)
	h.write(t, servers{"a": fake()}, map[string]any{"opa": map[string]any{"bundle": "https://bundles.example/b.tar.gz", "bundle_key": "key.pem"}})
	var got replayed
	if err := json.Unmarshal([]byte(h.ok(t, "policy", "replay", h.path("new"), "--file", h.file, "-o", "json")), &got); err != nil || got.NotAsked != 1 {
		t.Errorf("%+v %v", got, err)
	}
}
