//go:build e2e && !windows

package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/built"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Interceptors of the file are tried on what has happened, with the arguments that were kept.
func TestInterceptorReplay(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		decision := `{"decision":"allow"}`
		if strings.Contains(string(body), `"text":"bad"`) {
			decision = `{"decision":"deny","reason":"that text"}`
		}
		_, _ = io.WriteString(w, decision)
	}))
	t.Cleanup(receiver.Close)
	h := newHome(t)
	section := func(interceptors ...any) map[string]any {
		return map[string]any{"audit": map[string]any{"decision_inputs": true}, "interceptors": interceptors}
	}
	h.write(t, servers{"a": fake()}, section())
	p, url := h.up(t)
	client := newClient(t)
	for _, text := range []string{"good", "bad"} {
		post(t, client, url, "", mcp.MethodToolsCall, "a__echo", `"name":"a__echo","arguments":{"text":"`+text+`"},`)
	}
	post(t, client, url, "", mcp.MethodToolsCall, "a__pid", `"name":"a__pid","arguments":{},`)
	p.stop(t, syscall.SIGTERM)
	if o := h.run(t, "policy", "replay", "--interceptors", "--file", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "has no interceptors") {
		t.Errorf("without interceptors: %+v", o)
	}
	h.write(t, servers{"a": fake()}, section(
		map[string]any{"name": "dlp", "webhook": map[string]any{"url": receiver.URL, "secret": strings.Repeat("s", 32)}},
		map[string]any{"name": "hosted", "server": "a", "match": []string{"a__pid"}},
	))
	var got replayed
	if err := json.Unmarshal([]byte(h.ok(t, "policy", "replay", "--interceptors", "--file", h.file, "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Changed) != 1 || got.Same != 1 || got.Undecidable != 1 || got.NotAsked != 0 || got.Results != 3 {
		t.Fatalf("%+v", got)
	}
	if c := got.Changed[0]; c.Was != "allow" || c.Now != "deny" || c.Reason != "that text" || c.Tool != "a__echo" {
		t.Errorf("%+v", c)
	}
	hook := func(url string, more map[string]any) map[string]any {
		more["name"], more["webhook"] = "dlp", map[string]any{"url": url, "secret": strings.Repeat("s", 32)}
		return more
	}
	h.write(t, servers{"a": fake()}, section(hook(receiver.URL, map[string]any{"phase": []string{"before"}})))
	if o := h.ok(t, "policy", "replay", "--interceptors", "--file", h.file, "-o", "json"); !strings.Contains(o, `"results_unknown": 0`) {
		t.Errorf("only before: %s", o)
	}
	h.write(t, servers{"a": fake()}, section(hook(receiver.URL, map[string]any{"match": []string{"a__pid"}})))
	if o := h.run(t, "policy", "replay", "--interceptors", "--file", h.file); !strings.Contains(o.stderr, "interceptors would also see 1 results") {
		t.Errorf("of one tool: %+v", o)
	}
	for name, tt := range map[string]struct {
		by   map[string]any
		want replayed
		now  string
	}{
		"down and skipped": {hook("http://127.0.0.1:1", map[string]any{"on_error": "skip"}), replayed{Undecidable: 3}, ""},
		"down in audit":    {hook("http://127.0.0.1:1", map[string]any{"mode": "audit"}), replayed{Undecidable: 3}, ""},
		"audit":            {hook(receiver.URL, map[string]any{"mode": "audit"}), replayed{Same: 2, Changed: make([]replayedCall, 1)}, "would deny"},
	} {
		h.write(t, servers{"a": fake()}, section(tt.by))
		var got replayed
		if err := json.Unmarshal([]byte(h.ok(t, "policy", "replay", "--interceptors", "--file", h.file, "-o", "json")), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Changed) != len(tt.want.Changed) || got.Same != tt.want.Same || got.Undecidable != tt.want.Undecidable || tt.now != "" && got.Changed[0].Now != tt.now {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if o := h.run(t, "policy", "replay", "--file", h.file); o.code != exitUsage || !strings.Contains(o.stderr, "--interceptors") {
		t.Errorf("without a folder: %+v", o)
	}
}

// A plugin and a server that host interceptors are started for the replay, and end with it. One
// that does not start makes its calls unknown.
func TestHostedInterceptorReplay(t *testing.T) {
	t.Parallel()
	guard := filepath.Join(t.TempDir(), "note-guard")
	if err := built.Program(t.Context(), guard, "github.com/toolgate/toolgate/examples/note-guard"); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(guard)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	h := newHome(t)
	guards := map[string]any{"command": guard, "args": []string{"mcp"}}
	section := func(interceptors ...any) map[string]any {
		return map[string]any{
			"audit": map[string]any{"decision_inputs": true}, "interceptors": interceptors,
			"native": map[string]any{"plugins": map[string]any{"guard": map[string]any{
				"path": guard, "args": []string{"plugin"}, "sha256": hex.EncodeToString(sum[:]),
			}}},
		}
	}
	h.write(t, servers{"a": fake()}, map[string]any{"audit": map[string]any{"decision_inputs": true}})
	p, url := h.up(t)
	client := newClient(t)
	for _, text := range []string{"good", "my password", "the color"} {
		post(t, client, url, "", mcp.MethodToolsCall, "a__echo", `"name":"a__echo","arguments":{"text":"`+text+`"},`)
	}
	p.stop(t, syscall.SIGTERM)
	hosted := map[string]any{"name": "passwords", "server": "guards", "phase": []string{"before"}}
	for name, tt := range map[string]struct {
		by   []any
		want string // of the calls
		note string
	}{
		"a plugin":  {[]any{map[string]any{"name": "notes", "plugin": "guard"}}, "deny: notes are no place for passwords", ""},
		"a server":  {[]any{hosted}, "deny: ", ""},
		"a mutator": {[]any{map[string]any{"name": "spelling", "server": "guards", "phase": []string{"before"}, "type": "mutation"}}, "change: ", ""},
		"none":      {[]any{map[string]any{"name": "passwords", "server": "gone", "phase": []string{"before"}}}, "", "the interceptors of gone are not asked"},
		"both":      {[]any{hosted, map[string]any{"name": "notes", "plugin": "guard"}}, "deny: ", ""},
	} {
		h.write(t, servers{"a": fake(), "guards": guards, "gone": map[string]any{"command": h.path("gone")}}, section(tt.by...))
		o := h.run(t, "policy", "replay", "--interceptors", "--file", h.file, "-o", "json")
		var got replayed
		if err := json.Unmarshal([]byte(o.stdout), &got); err != nil || o.code != exitOK {
			t.Fatalf("%s: %v: %+v", name, err, o)
		}
		if tt.want == "" {
			if got.Undecidable != 3 || !strings.Contains(o.stderr, tt.note) {
				t.Errorf("%s: %+v, said %s", name, got, o.stderr)
			}
			continue
		}
		if len(got.Changed) != 1 || got.Same != 2 || !strings.HasPrefix(got.Changed[0].Now+": "+got.Changed[0].Reason, tt.want) {
			t.Errorf("%s: %+v, said %s", name, got, o.stderr)
		}
	}
}

// What was not recorded cannot be asked about again.
func TestInterceptorReplayOfDoubt(t *testing.T) {
	for _, tt := range []struct {
		phase, verdict string
		want           bool
	}{
		{"interceptor/dlp", "change", false},
		{"interceptor/dlp/after", "change", true},
		{"interceptor/dlp", "would change", true},
		{"capsule", "allow", false},
		{"capsule", "abstain", true},
	} {
		r := &audit.Record{Entry: audit.Entry{Steps: []audit.Step{{Phase: "rates", Verdict: "pass"}, {Phase: tt.phase, Verdict: tt.verdict}}}}
		if got := recorded(r); got != tt.want {
			t.Errorf("%s %s: %v", tt.phase, tt.verdict, got)
		}
	}
}
