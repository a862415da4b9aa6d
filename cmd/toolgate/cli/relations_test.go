//go:build !windows

package cli

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// asking is a toolgate section that asks a SpiceDB. It has time to answer, so
// that no test depends on how fast it does.
func asking(addr string, more ...string) map[string]any {
	section := map[string]any{"endpoint": addr, "tls": false, "timeouts": map[string]any{"call": "20s", "list": "20s"}}
	for i := 0; i+1 < len(more); i += 2 {
		section[more[i]] = more[i+1]
	}
	return map[string]any{"spicedb": section}
}

// names lists the tools of a client.
func names(t *testing.T, c *lineclient.Client) ([]string, error) {
	t.Helper()
	items, err := c.All(t.Context(), mcp.Tool)
	var out []string
	for _, raw := range items {
		name, _ := mcp.LookupString(raw, "name")
		out = append(out, name)
	}
	return out, err
}

// The commands about a SpiceDB, and their exit codes.
func TestSpiceDBCommands(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, "tool:a__pid#server@server:a", "tool:a__echo#server@server:elsewhere")
	addr := s.Start(t)
	h := newHome(t)
	h.write(t, servers{"a": fake()}, asking(addr))
	if got := h.ok(t, "spicedb", "check", h.file); !strings.Contains(got, addr+" answers") {
		t.Errorf("check: %s", got)
	}
	before := s.Calls("WriteRelationships")
	got := h.ok(t, "spicedb", "sync", h.file, "--dry-run", "-q")
	for _, want := range []string{
		"tool:a__slow#server@server:a +would be written", "tool:a__echo#server@server:elsewhere +on another server", "5 would be written, 1 already there",
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("the dry run lacks %q: %s", want, got)
		}
	}
	if s.Calls("WriteRelationships") != before {
		t.Error("the dry run wrote something")
	}
	h.up(t) // whose catalog is asked
	if got := h.ok(t, "spicedb", "sync", h.file); !strings.Contains(got, "5 written, 1 already there") {
		t.Errorf("sync: %s", got)
	}
	if got := h.ok(t, "spicedb", "sync", h.file, "-o", "json"); !strings.Contains(got, `"kept": 6`) || !strings.Contains(got, `"written": []`) {
		t.Errorf("again: %s", got)
	}
	s.SetType("tool", []string{"server"})
	if o := h.run(t, "spicedb", "check", h.file); o.code != exitConfig || !strings.Contains(o.stdout, "has no permission execute") {
		t.Errorf("a schema without the permission: exit code %d, %s", o.code, o.stdout)
	}
	s.Stop()
	if o := h.run(t, "spicedb", "check", h.file); o.code != exitUnreachable {
		t.Errorf("a server that is down: exit code %d, %s", o.code, o.stdout)
	}
	if o := h.run(t, "spicedb", "sync", h.file); o.code != exitUnreachable {
		t.Errorf("a server that is down: exit code %d, %s", o.code, o.stderr)
	}
	h.write(t, servers{"a": fake()}, nil)
	if o := h.run(t, "spicedb", "check", h.file); o.code != exitConfig {
		t.Errorf("no section: exit code %d, %s", o.code, o.stderr)
	}
}

// One tool whose name no SpiceDB takes as it is, and one about which the server
// answers with an error, leave the other thousand listed.
func TestHostileNameLeavesTheRestListed(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, "server:a#executor@user:local")
	s.FailPairs(func(object string) error {
		if strings.HasSuffix(object, "/t7") {
			return errors.New("not this one")
		}
		return nil
	})
	h := newHome(t)
	h.write(t, servers{"a": fake("tools=1000", "name=a b:#*@\u0001é/../x")}, asking(s.Start(t), "object_id", "{server}/{original}"))
	if got := h.ok(t, "spicedb", "sync", h.file, "-q"); !strings.Contains(got, "1001 written") {
		t.Fatalf("sync: %.300s", got)
	}
	r := daemontest.Run(t, h.Home)
	c := r.Client(t, "")
	testwait.Until(t, patience, "the thousand are listed", func() bool {
		list, err := names(t, c)
		return err == nil && len(list) >= 1000
	})
}

// A schema that relates users to tools alone does for a server that has prompts and
// resources too: clients that list everything when they connect get empty lists.
func TestSchemaOfToolsAlone(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.SetType("prompt", nil)
	s.SetType("resource", nil)
	s.SetType("tool", []string{"owner", "executor", "execute"})
	s.Write(t, "tool:d__add#executor@user:local")
	h := newHome(t)
	h.write(t, servers{"d": {"command": program, "args": []string{"demo-server"}}}, asking(s.Start(t)))
	r := daemontest.Run(t, h.Home)
	c := r.Client(t, "")
	testwait.Until(t, patience, "the tool is listed", func() bool {
		list, err := names(t, c)
		return err == nil && slices.Equal(list, []string{"d__add"})
	})
	for _, kind := range []mcp.Kind{mcp.Prompt, mcp.Resource, mcp.Template} {
		if items, err := c.All(t.Context(), kind); err != nil || len(items) > 0 {
			t.Errorf("%s: %s, %v", kind.ListMethod(), items, err)
		}
	}
	for method, params := range map[string]string{
		mcp.MethodPromptsGet: `{"name":"d__greet","arguments":{"name":"x"}}`,
		mcp.MethodRead:       `{"uri":"d+demo://about"}`,
	} {
		_, err := c.Request(t.Context(), method, []byte(params))
		if fault, ok := errors.AsType[*mcp.Error](err); !ok || fault.Code != mcp.CodeInvalidParams && fault.Code != mcp.CodeResourceNotFound {
			t.Errorf("%s: %v", method, err)
		}
	}
	if got := h.ok(t, "spicedb", "check", h.file); !strings.Contains(got, "nothing of that type is allowed") {
		t.Errorf("check: %s", got)
	}
}
