//go:build e2e && !windows

package cli

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A gateway whose database is not there yet starts, greets, refuses lists and
// calls by a reason of their own, and serves as soon as the database is there.
func TestStartWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	server := storetest.StartPostgres(t)
	address := server.URL(t)
	server.Kill(t)
	h := newHome(t)
	section := h.sharing(t, address)
	section["governance"] = map[string]any{"mode": "ALERT", "tools": map[string]any{"a__pid": readOnly}}
	first, second := testport.Address(t), testport.Address(t)
	section["cluster"] = map[string]any{"advertise": first}
	h.write(t, servers{"a": fake()}, section)
	p := h.start(t, "up", h.file)
	url := p.says(t, p.out, `(https?://\S+)/mcp `)[1]
	client := newClient(t)
	h.ok(t, "ls", h.file, "--wait", "30s")

	if code, answer := post(t, client, url, "", mcp.MethodDiscover, "", ""); code != http.StatusOK || refusalKind(t, answer) != "" || !strings.Contains(string(answer), `"tools"`) {
		t.Errorf("discover: %d %s", code, answer)
	}
	for _, tt := range []struct{ method, name, params string }{
		{mcp.MethodToolsList, "", ""},
		{mcp.MethodToolsCall, "a__pid", `"name":"a__pid","arguments":{},`},
	} {
		if code, answer := post(t, client, url, "", tt.method, tt.name, tt.params); code != http.StatusOK || refusalKind(t, answer) != "registry_unavailable" {
			t.Errorf("%s: %d %s", tt.method, code, answer)
		}
	}
	if code, word := get(t, client, url+"/readyz"); code != http.StatusServiceUnavailable || strings.TrimSpace(word) != "store" {
		t.Errorf("readyz: %d %s", code, word)
	}
	if code, words := get(t, client, url+"/readyz?verbose"); code != http.StatusServiceUnavailable || words != "store\naudit ok\nstore not ready\nregistry not ready\n" {
		t.Errorf("readyz, in full: %d %q", code, words)
	}
	if code, _ := get(t, client, url+"/livez"); code != http.StatusOK {
		t.Errorf("livez: %d", code)
	}
	if got := h.ok(t, "ls", h.file); !strings.Contains(got, "not ready: store: ") || !strings.Contains(got, "cannot connect") {
		t.Errorf("ls: %s", got)
	}
	for _, args := range [][]string{{"mode"}, {"mode", "LOCKDOWN", "--reason", "x"}} {
		if o := h.run(t, append(args, "--file", h.file)...); o.code == exitOK || !strings.Contains(o.stderr, "cannot connect") {
			t.Errorf("%v: exit code %d: %s", args, o.code, o.stderr)
		}
	}

	server.Start(t)
	testwait.Until(t, patience, "it is ready", func() bool { code, _ := get(t, client, url+"/readyz"); return code == http.StatusOK })
	testwait.Until(t, patience, "calls are made", func() bool {
		_, answer := post(t, client, url, "", mcp.MethodToolsCall, "a__pid", `"name":"a__pid","arguments":{},`)
		return refusalKind(t, answer) == "" && !strings.Contains(string(answer), "isError\":true")
	})
	testwait.Until(t, patience, "everything is ready", func() bool {
		code, words := get(t, client, url+"/readyz?verbose")
		return code == http.StatusOK && words == "ok\naudit ok\nstore ok\nregistry ok\n"
	})
	if _, answer := post(t, client, url, "", mcp.MethodToolsList, "", ""); !strings.Contains(string(answer), `"a__pid"`) {
		t.Errorf("list: %s", answer)
	}
	if got := h.ok(t, "mode", "--file", h.file); !strings.Contains(got, "ALERT") || !strings.Contains(got, "configuration") {
		t.Errorf("mode: %s", got)
	}
	if got := h.ok(t, "why", "a__pid", "--file", h.file, "-o", "json"); !strings.Contains(got, `"capability_id": "cap_`) {
		t.Errorf("without a capability id: %s", got)
	}
	h.ok(t, "mode", "NORMAL", "--reason", "it is back", "--file", h.file)
	other := newHome(t)
	section["cluster"] = map[string]any{"advertise": second}
	other.write(t, servers{"a": fake()}, section)
	other.up(t)
	testwait.Until(t, patience, "the gateway that started without the database has joined the other", func() bool {
		got := h.ok(t, "status", "--all", "--file", h.file)
		return strings.Contains(got, first) && strings.Contains(got, second)
	})
	text, err := os.ReadFile(auditFile(t, h))
	if err != nil || strings.Count(string(text), `"code":"registry_unavailable"`) != 1 {
		t.Errorf("the refused call is not in the audit log once: %v\n%s", err, text)
	}
}

// What will not pass by itself is said at once: an address that is none, and a
// server that refuses. Commands that only ask do not wait for a server either.
func TestStartWithAWrongDatabase(t *testing.T) {
	t.Parallel()
	postgres.Exec(t, "postgres", "CREATE ROLE secret; CREATE ROLE gw LOGIN PASSWORD 'right' IN ROLE secret")
	t.Cleanup(func() { postgres.Exec(t, "postgres", "DROP ROLE gw; DROP ROLE secret") })
	h := newHome(t)
	for _, tt := range []struct{ url, command, want string }{
		{"postgres://u:p@@h/db", "up", "cannot be read"},
		{"postgres:///db", "up", "names no host"},
		{postgres.Address("gw", "wrong", "postgres"), "up", "refuses the user or the password"},
		{postgres.Address("gw", "right", "none"), "up", "the database does not exist"},
		{"postgres://u@127.0.0.1:1/db", "tools", "cannot connect"},
	} {
		h.write(t, servers{"a": fake()}, h.sharing(t, tt.url))
		o := h.run(t, tt.command, h.file)
		if o.code == exitOK || !strings.Contains(o.stderr, tt.want) || strings.Contains(o.stderr, "wrong") {
			t.Errorf("%s with %s: exit code %d: %s", tt.command, tt.url, o.code, o.stderr)
		}
	}
}

// The address of the store may have a password.
func TestStoreAddressIsNotShown(t *testing.T) {
	c, err := config.Default(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Toolgate.Store = "postgres://someone:secret@db.example/toolgate"
	for _, row := range settingsTable(c, false, true).Rows {
		if row[0] == "store" && !strings.HasPrefix(row[1], "postgres://[redacted]@") {
			t.Errorf("the address of the store is shown: %s", row[1])
		}
	}
}
