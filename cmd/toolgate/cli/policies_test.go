//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// caller is somebody whom a policy knows, or does not know.
type caller struct{ user, tenant, persona string }

func (c caller) key() string {
	return strings.Join([]string{"key", c.user, c.tenant, c.persona}, ".")
}

// known are the API keys of callers.
func known(callers []caller) map[string]any {
	keys := make([]any, len(callers))
	for i, c := range callers {
		keys[i] = map[string]any{"id": fmt.Sprint("k", i), "sha256": sum(c.key()), "subject": c.user, "tenant": c.tenant, "persona": c.persona}
	}
	return map[string]any{"keys": keys}
}

// walk has each caller list and call each tool, and compares with what is meant to be seen
// and to be called.
func walk(t *testing.T, when, url string, callers []caller, tools []string, sees, calls func(c caller, tool string) bool) {
	t.Helper()
	client := newClient(t)
	for _, c := range callers {
		_, body := post(t, client, url, c.key(), mcp.MethodToolsList, "", "")
		var list struct {
			Result struct{ Tools []struct{ Name string } }
		}
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		var listed []string
		for _, tool := range list.Result.Tools {
			listed = append(listed, tool.Name)
		}
		for _, tool := range tools {
			if got, want := slices.Contains(listed, tool), sees(c, tool); got != want {
				t.Errorf("%s: %+v sees %s: %v, want %v", when, c, tool, got, want)
			}
			_, body := post(t, client, url, c.key(), mcp.MethodToolsCall, tool, fmt.Sprintf(`"name":%q,"arguments":{},`, tool))
			unknown, denied := strings.Contains(string(body), "Unknown tool"), strings.Contains(string(body), `"kind":"denied"`)
			if got, want := !unknown && !denied, calls(c, tool); got != want || !want && unknown == sees(c, tool) {
				t.Errorf("%s: %+v calls %s: want %v\n%s", when, c, tool, want, body)
			}
		}
	}
}

// logged are the lines of errors that a gateway has logged.
func (p *process) logged(t *testing.T) {
	t.Helper()
	for line := range strings.SplitSeq(p.err.String(), "\n") {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "level=ERROR") {
			t.Errorf("logged: %s", line)
		}
	}
}

// as has the fake server's tools under the names that a policy has.
func as(names ...string) map[string]any {
	own := []string{"pid", "echo", "fail", "picture", "fault"}
	tools := map[string]any{}
	for i, name := range names {
		tools[own[i]] = map[string]any{"rename": name}
	}
	return map[string]any{"a": map[string]any{"namespace": "", "tools": tools}}
}

// The policy of a centralized registry decides on a whole gateway as its document says, for
// every persona in every tenant, also after the catalog has changed, and without an error in
// the log.
func TestPolicyOfCentralizedTools(t *testing.T) {
	t.Parallel()
	tools := []string{"memory_load", "memory_save", "code_execute", "http_fetch", "dangerous_tool"}
	var callers []caller
	for _, tenant := range []string{"tenant-1", "tenant-sandbox", "tenant-2"} {
		for _, persona := range []string{"", "persona-restricted", "persona-admin", "persona-user", "persona-other"} {
			callers = append(callers, caller{"someone", tenant, persona})
		}
	}
	policies, err := filepath.Abs("../../../examples/sources-001/policies")
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	h.serves = plain // the race detector would use up the 50 ms that a decision has
	shaped := as(tools...)
	shaped["more"] = map[string]any{"offer": map[string]any{"description": "another"}}
	shaped["dangerous_tool"] = map[string]any{"offer": map[string]any{"description": "none that may be added"}}
	h.write(t, servers{"a": fake(), "more": fake(), "dangerous_tool": fake()}, map[string]any{
		"auth": known(callers), "servers": shaped, "opa": map[string]any{"path": policies, "decision": "data.soma.policy.allow"},
	})
	p, url := h.up(t)
	h.ok(t, "ls", "--wait", "20s", "--file", h.file)

	off := map[string]bool{}        // in the catalog
	flagged := map[caller]bool{}    // by tenant and the tool as its user, what a flag says
	restricted := map[caller]bool{} // by persona and the tool as its user
	sees := func(c caller, tool string) bool {
		switch {
		case c.tenant == "tenant-1" && tool == "code_execute", c.persona == "persona-restricted" && (tool == "code_execute" || tool == "http_fetch"):
			return false
		case restricted[caller{user: tool, persona: c.persona}]:
			return false
		}
		if on, ok := flagged[caller{user: tool, tenant: c.tenant}]; ok {
			return on
		}
		return !off[tool]
	}
	calls := func(c caller, tool string) bool {
		return sees(c, tool) && (c.tenant != "tenant-sandbox" || tool != "code_execute")
	}
	walk(t, "at the start", url, callers, tools, sees, calls)
	h.ok(t, "catalog", "disable", "memory_save", "--file", h.file)
	off["memory_save"] = true
	h.ok(t, "catalog", "flag", "memory_load", "off", "--tenant", "tenant-2", "--file", h.file)
	flagged[caller{user: "memory_load", tenant: "tenant-2"}] = false
	h.ok(t, "catalog", "restrict", "http_fetch", "--persona", "persona-user", "--file", h.file)
	restricted[caller{user: "http_fetch", persona: "persona-user"}] = true
	walk(t, "after changes of the catalog", url, callers, tools, sees, calls)

	for _, c := range callers { // tool.enable
		h.env["TOOLGATE_API_KEY"] = c.key()
		found := h.run(t, "call", "toolgate__find_servers", "--file", h.file)
		if got, want := strings.Contains(found.stdout, `"name":"more"`), c.persona != "persona-user"; got != want || strings.Contains(found.stdout, `"name":"dangerous_tool"`) {
			t.Errorf("%+v may add: %+v", c, found)
		}
	}
	delete(h.env, "TOOLGATE_API_KEY")
	p.stop(t, syscall.SIGTERM)
	p.logged(t)
}

// The policy of roles, in the language before OPA 1.0, decides on a whole gateway as its
// document says, for every user in every tenant.
func TestPolicyOfRolesOnAGateway(t *testing.T) {
	t.Parallel()
	tools := []string{"search", "read"}
	var callers []caller
	for _, tenant := range []string{"tenant-1", "tenant-2"} {
		for _, user := range []string{"user-1", "user-2", "user-3", "user-4"} {
			callers = append(callers, caller{user, tenant, ""})
		}
	}
	policies, err := filepath.Abs("../../../examples/sources-000/policies")
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	h.serves = plain // the race detector would use up the 50 ms that a decision has
	h.write(t, servers{"a": fake()}, map[string]any{
		"auth": known(callers), "servers": as(tools...),
		"opa": map[string]any{"path": policies, "decision": "data.soma.tools.allow", "rego_version": "v0", "actions": map[string]any{"tool.view": "execute", "tool.request": "execute"}},
	})
	p, url := h.up(t)
	h.ok(t, "ls", "--wait", "20s", "--file", h.file)
	off := false
	may := func(c caller, tool string) bool {
		return (c.user == "user-1" || c.user == "user-2") && (!off || tool != "search")
	}
	walk(t, "at the start", url, callers, tools, may, may)
	h.ok(t, "catalog", "disable", "search", "--file", h.file)
	off = true
	walk(t, "after a change of the catalog", url, callers, tools, may, may)
	p.stop(t, syscall.SIGTERM)
	p.logged(t)
}
