//go:build !windows

package daemon_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
)

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
		"auth.keys", "auth.admins", "auth.auditors", "auth.viewers", "gate.open", "registry.default", "registry.on_new", "registry.on_change", "registry.tool_metadata", "registry.shipped_seed", "registry.seed", "capsules", "find.pins", "find.answer_tokens", "find.learning", "find.embeddings.url", "find.embeddings.model", "find.embeddings.api_key", "find.embeddings.allow_addresses", "schemas",
		"opa.path", "opa.bundle", "opa.bundle_key", "opa.url", "opa.decision", "opa.rego_version", "opa.mode", "opa.actions",
		"spicedb.endpoint", "spicedb.token", "spicedb.tls", "spicedb.ca", "spicedb.object", "spicedb.permission", "spicedb.view_permission",
		"spicedb.object_id", "spicedb.prompt", "spicedb.resource", "spicedb.resource_permission", "spicedb.resource_id", "spicedb.subject",
		"spicedb.subject_id", "spicedb.server", "spicedb.server_id", "spicedb.server_relation", "spicedb.grant", "spicedb.resource_grant",
		"spicedb.ban", "spicedb.strict", "spicedb.strict_for", "spicedb.timeouts.call", "spicedb.timeouts.list", "spicedb.cache", "spicedb.zone",
		"spicedb.builtin", "governance.own_files", "governance.tools", "governance.categories", "approvals.require",
		"governance.degraded.auto", "governance.degraded.memory", "governance.degraded.memory_limit", "governance.degraded.disk",
		"governance.degraded.disk_percent", "governance.degraded.after", "governance.degraded.back",
		"approvals.wait", "approvals.valid", "approvals.by", "approvals.ask", "approvals.webhook.url", "approvals.webhook.secret", "interceptors",
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
		"limits.redact", "limits.redact_time",
		"results.validate_output", "results.redact.secrets", "results.redact.tokens", "results.redact.values", "results.redact.patterns",
		"results.max_bytes", "results.larger", "results.drop", "results.select", "results.rows", "results.dedupe", "results.own_select",
		// Of the pool of queued tools:
		"queue.workers", "queue.waiting", "queue.waiting_per_principal", "queue.keep",
		// Of native tools, which are started anew:
		"native.fs", "native.system", "native.web", "native.code", "native.util", "native.memory", "native.schedule", "native.notify", "native.plugins", "agents", "tools", "tool_files", "tool_urls",
		// Of what this version does not have yet:
		"limits.policy_input",
		"audit.args_hash",
	}
	for _, path := range settingsBelow(reflect.TypeFor[config.Toolgate](), "") {
		if slices.Contains(reloaded, path) == daemon.StartOnly(path) && path != "audit.args_hash" {
			t.Errorf("%s: only at the start: %v", path, daemon.StartOnly(path))
		}
	}
	for path, want := range map[string]bool{"listen": true, "listen.tls.cert": true, "listener": false, "limits": false, "limits.bodyguard": false, "": false} {
		if daemon.StartOnly(path) != want {
			t.Errorf("%q: %v", path, daemon.StartOnly(path))
		}
	}
}

// settingsBelow returns the paths of all settings of a section.
func settingsBelow(section reflect.Type, path string) (all []string) {
	for _, field := range decode.Fields(section) {
		name := field.Tag.Get("config")
		at := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case name == "servers":
		case field.Type.Kind() == reflect.Struct:
			all = append(all, settingsBelow(field.Type, at)...)
		default:
			all = append(all, at)
		}
	}
	return all
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
