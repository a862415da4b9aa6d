//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
)

// laterSettings is a toolgate section that a running gateway takes over in part.
var laterSettings = map[string]any{
	"listen": map[string]any{"public_url": "https://example.com"},
	"limits": map[string]any{"body": "1MiB", "queue": 7},
	"audit":  map[string]any{"mode": "required"},
}

var laterPaths = []string{"audit.mode", "limits.body", "listen.public_url"}

func TestReloadSaysWhatTheNextStartTakesOver(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	p, _ := h.up(t)
	if got := h.ok(t, "reload", h.file); got != "reloaded "+h.file+"\n  nothing to apply\n" {
		t.Errorf("nothing has changed: %q", got)
	}

	h.write(t, servers{"a": fake("two")}, laterSettings)
	// The file is read by itself first; what only a start takes over waits for
	// nobody.
	p.says(t, p.err, "takes effect at the next start.*limits.body")
	if s := p.err.String(); strings.Contains(s, "setting audit") || !strings.Contains(s, "server a: args") {
		t.Errorf("what waits: %s", s)
	}
	later := "takes effect at the next start:\n  setting audit.mode\n  setting limits.body\n  setting listen.public_url\n"
	if got, want := h.ok(t, "reload", h.file), "reloaded "+h.file+"\n  server a: args\n"+later; got != want {
		t.Errorf("reload: %q, want %q", got, want)
	}
	// A second reload has nothing to do, and the next start is still needed.
	if got, want := h.ok(t, "reload", h.file), "reloaded "+h.file+"\n  nothing to apply\n"+later; got != want {
		t.Errorf("again: %q, want %q", got, want)
	}
	if got := h.ok(t, "reload", h.file, "-o", "name"); got != strings.Join(laterPaths, "\n")+"\n" {
		t.Errorf("names: %q", got)
	}
	want := admin.Reloaded{File: h.file, Applied: []string{}, AtNextStart: laterPaths}
	var fromJSON, fromYAML admin.Reloaded
	if err := json.Unmarshal([]byte(h.ok(t, "reload", h.file, "-o", "json")), &fromJSON); err != nil {
		t.Fatal(err)
	}
	asJSON(t, h.ok(t, "reload", h.file, "-o", "yaml"), &fromYAML)
	if diff := cmp.Diff([]admin.Reloaded{want, want}, []admin.Reloaded{fromJSON, fromYAML}); diff != "" {
		t.Errorf("json, yaml (-want +got):\n%s", diff)
	}

	if got := h.ok(t, "ls", h.file); !strings.HasSuffix(got, later) {
		t.Errorf("ls: %s", got)
	}
	var status, statusYAML admin.Status
	if err := json.Unmarshal([]byte(h.ok(t, "ls", h.file, "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	asJSON(t, h.ok(t, "ls", h.file, "-o", "yaml"), &statusYAML)
	for _, s := range []admin.Status{status, statusYAML} {
		if len(s.Servers) != 1 || len(s.Pending) != 0 || !slices.Equal(s.AtNextStart, laterPaths) {
			t.Errorf("ls: %+v", s)
		}
	}
	if got := h.ok(t, "ls", h.file, "-o", "name"); got != "a\n" {
		t.Errorf("names are of servers: %q", got)
	}

	// Back to what the gateway started with: no start is needed for that.
	h.write(t, servers{"a": fake("two")}, nil)
	if got := h.ok(t, "reload", h.file); strings.Contains(got, "next start") {
		t.Errorf("taken back: %q", got)
	}
	if got := h.ok(t, "ls", h.file); strings.Contains(got, "next start") {
		t.Errorf("ls: %s", got)
	}
	// And the next start has nothing left to take over.
	h.write(t, servers{"a": fake("two")}, laterSettings)
	h.ok(t, "reload", h.file)
	p.stop(t, syscall.SIGTERM)
	h.up(t)
	if got := h.ok(t, "reload", h.file); strings.Contains(got, "next start") {
		t.Errorf("after the next start: %q", got)
	}
}

// asJSON reads YAML by way of JSON, for its names.
func asJSON(t *testing.T, text string, into any) {
	t.Helper()
	var generic any
	if err := yaml.Unmarshal([]byte(text), &generic); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(generic)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// A setting that waits for a person is shown by ls, and none of those that
// only a start takes over is among them.
func TestPendingSettings(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, withKeys("alice"))
	r := h.newRunning(t)
	both := withKeys("alice", "bob")
	both["store"] = "sqlite:" + h.path("other.db")
	h.write(t, servers{}, both)
	if _, err := r.TakeFile(false); err != nil {
		t.Fatal(err)
	}
	want := admin.Status{Servers: []admin.Server{}, Pending: []string{"auth.keys.bob"}, AtNextStart: []string{"store"}, Mode: &admin.Mode{Mode: "NORMAL"}}
	if diff := cmp.Diff(want, r.Status()); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	did, err := r.Reload()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(admin.Reloaded{File: h.file, Applied: []string{"setting auth.keys"}, Pending: []string{}, AtNextStart: []string{"store"}}, did); diff != "" {
		t.Errorf("reloaded (-want +got):\n%s", diff)
	}
	want.Pending = []string{}
	if diff := cmp.Diff(want, r.Status()); diff != "" {
		t.Errorf("status after (-want +got):\n%s", diff)
	}
}

// Every setting of this version is on one side: either reloads take it over,
// which the code below says for each, or only a start does.
func TestEverySettingIsClassed(t *testing.T) {
	reloaded := []string{
		"auth.keys", "auth.admins", "gate.open", "registry.default", "registry.on_new", "registry.on_change", "registry.seed", "capsules",
		"opa.path", "opa.bundle", "opa.bundle_key", "opa.url", "opa.decision", "opa.rego_version", "opa.mode", "opa.actions",
		"spicedb.endpoint", "spicedb.token", "spicedb.tls", "spicedb.ca", "spicedb.object", "spicedb.permission", "spicedb.view_permission",
		"spicedb.object_id", "spicedb.prompt", "spicedb.resource", "spicedb.resource_permission", "spicedb.resource_id", "spicedb.subject",
		"spicedb.subject_id", "spicedb.server", "spicedb.server_id", "spicedb.server_relation", "spicedb.grant", "spicedb.resource_grant",
		"spicedb.ban", "spicedb.strict", "spicedb.strict_for", "spicedb.timeouts.call", "spicedb.timeouts.list", "spicedb.cache", "spicedb.zone",
		"spicedb.builtin", "governance.own_files", "governance.tools",
		"governance.degraded.auto", "governance.degraded.memory", "governance.degraded.memory_limit", "governance.degraded.disk",
		"governance.degraded.disk_percent", "governance.degraded.after", "governance.degraded.back",
		"approvals.wait", "approvals.valid", "approvals.by", "approvals.ask", "approvals.webhook.url", "approvals.webhook.secret",
		"plans", "bounded_plans", "budgets", "tenants",
		"auth.jwt", "auth.introspection.endpoint", "auth.introspection.client_id", "auth.introspection.client_secret", "auth.introspection.issuer",
		"auth.introspection.audience", "auth.introspection.clients", "auth.introspection.claims.subject", "auth.introspection.claims.tenant",
		"auth.introspection.claims.persona", "auth.introspection.claims.groups", "auth.introspection.claims.scopes", "auth.introspection.claims.plan",
		"auth.mtls.subject", "auth.mtls.tenant", "auth.mtls.persona", "auth.mtls.groups", "auth.mtls.plan", "auth.mtls.scopes", "auth.mtls.agree",
		"auth.scopes.required", "auth.scopes.hierarchy", "auth.scopes.challenge", "auth.scopes.supported",
		"rates", "limits.calls_per_principal", "limits.identical_calls", "limits.lists_per_minute", "limits.initializes_per_minute",
		"limits.notifications_per_minute", "limits.cancels_per_minute", "limits.completions_per_minute", "limits.unknown_per_minute",
		"limits.auth_failures_per_minute",
		// Of each server, which is started anew:
		"limits.result", "limits.line", "limits.pages", "limits.tools", "limits.catalog", "limits.queue", "limits.added_per_principal",
		// Of the end of the gateway:
		"limits.drain",
		"limits.redact", "limits.redact_time", "limits.notifications_per_call",
		"results.validate_output", "results.redact.secrets", "results.redact.tokens", "results.redact.values", "results.redact.patterns",
		"results.max_bytes", "results.larger",
		// Of the pool of queued tools:
		"queue.workers", "queue.waiting", "queue.waiting_per_principal", "queue.keep",
		// Of native tools, which are started anew:
		"native.fs", "native.system", "native.web", "native.code", "native.util", "native.plugins", "tools", "tool_files", "tool_urls",
		// Of what this version does not have yet:
		"limits.policy_input",
		"audit.args_hash",
	}
	var all []setting
	collect(reflect.ValueOf(config.Toolgate{}), "", &all)
	for _, s := range all {
		if slices.Contains(reloaded, s.Path) == daemon.StartOnly(s.Path) && s.Path != "audit.args_hash" {
			t.Errorf("%s: only at the start: %v", s.Path, daemon.StartOnly(s.Path))
		}
	}
	for path, want := range map[string]bool{"listen": true, "listen.tls.cert": true, "listener": false, "limits": false, "limits.bodyguard": false, "": false} {
		if daemon.StartOnly(path) != want {
			t.Errorf("%q: %v", path, daemon.StartOnly(path))
		}
	}
}

func TestChangedSettings(t *testing.T) {
	var a, b config.Toolgate
	if got := daemon.ChangedSettings(&a, &b); got != nil {
		t.Errorf("equal: %v", got)
	}
	b.Listen.TLS.Cert, b.Limits.Depth, b.Telemetry.OTLP = "x", 3, "http://127.0.0.1:4318"
	b.Servers = map[string]config.ServerSettings{"a": {}} // part of the servers
	if diff := cmp.Diff([]string{"limits.depth", "listen.tls.cert", "telemetry.otlp"}, daemon.ChangedSettings(&a, &b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReloadOfTheDemo(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.start(t, "up")
	p.says(t, p.out, `(?m)^ready `)
	if got := h.ok(t, "reload"); got != "reloaded\n  nothing to apply\n" {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(h.file); err == nil {
		t.Error("a file was made")
	}
}
