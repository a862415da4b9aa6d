//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Somebody asks what happened, in every way, and whether that is all.
func TestAuditCommands(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, map[string]any{"audit": map[string]any{"fields": map[string]any{"a__*": []string{"/owner", "/none"}}}})
	if o := h.run(t, "audit", "search", "--file", h.file); o.code != exitUnreachable || !strings.Contains(o.stderr, "there is no audit log") {
		t.Errorf("before the first start: %+v", o)
	}
	p, url := h.up(t)
	client := newClient(t)
	token := "ghp_" + strings.Repeat("aB3d", 9)
	call := func(name, args string) []byte {
		_, body := post(t, client, url, "", mcp.MethodToolsCall, name, `"name":"`+name+`","arguments":`+args+`,`)
		return body
	}
	call("a__echo", `{"owner":"acme `+token+`","text":"hush"}`)
	call("a__"+token, `{}`)
	testwait.Until(t, patience, "both calls are in the log", func() bool {
		return strings.Count(h.ok(t, "audit", "search", "-o", "name", "--file", h.file), "\n") >= 2
	})
	found := h.ok(t, "audit", "search", "decision=allow", "tool=a__echo", "since=1h", "-o", "json", "--file", h.file)
	var records []audit.Record
	if err := json.Unmarshal([]byte(found), &records); err != nil || len(records) != 1 {
		t.Fatalf("%v: %s", err, found)
	}
	r := records[0]
	if len(r.Fields) != 1 || r.Fields[0].Pointer != "/owner" || !strings.HasPrefix(r.Fields[0].Value, "acme [redacted") || len(r.Steps) == 0 || r.Outcome != audit.OutcomeOK {
		t.Errorf("entry %+v", r)
	}
	if got := h.ok(t, "audit", "search", "decision=deny", "--file", h.file); !strings.Contains(got, "deny") || strings.Contains(got, "a__echo") {
		t.Errorf("denied: %s", got)
	}
	if got := h.ok(t, "audit", "show", r.CallID, "--file", h.file); !strings.Contains(got, "phase open") || !strings.Contains(got, "begun") || !strings.Contains(got, "/owner") {
		t.Errorf("show: %s", got)
	}
	if got := h.ok(t, "audit", "tail", "-n", "1", "-o", "name", "--file", h.file); strings.Count(got, "\n") != 1 {
		t.Errorf("tail: %s", got)
	}
	for format, want := range map[string]string{"jsonl": `{"seq":`, "csv": "time,seq,event", "ocsf": `"class_uid":6003`} {
		if got := h.ok(t, "audit", "export", "--format", format, "server=a", "--file", h.file); !strings.Contains(got, want) {
			t.Errorf("%s: %s", format, got)
		}
	}
	for _, args := range [][]string{{"search", "tol=x"}, {"show", "nobody"}, {"export", "--format", "xml"}} {
		if o := h.run(t, append(append([]string{"audit"}, args...), "--file", h.file)...); o.code != exitUsage || o.stderr == "" {
			t.Errorf("%v: %+v", args, o)
		}
	}
	h.ok(t, "audit", "verify", "--file", h.file)
	testwait.Until(t, patience, "the call is in the execution log", func() bool {
		return strings.Contains(h.ok(t, "usage", "--by", "tool,tenant,persona", "--file", h.file), "a__echo  default  -        1      0 (0.0%)  0")
	})
	if o := h.run(t, "usage", "--by", "colour", "--file", h.file); o.code != exitUsage {
		t.Errorf("by colour: %+v", o)
	}
	p.stop(t, syscall.SIGTERM)
	if got := h.ok(t, "audit", "verify", "--file", h.file); !strings.Contains(got, "verified") {
		t.Errorf("verify: %s", got)
	}

	// No secret is in any file of the gateway but its configuration.
	path := h.stateFile(t, "audit.jsonl")
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), token) || strings.Contains(string(text), "hush") {
		t.Errorf("%v: the log holds what it must not:\n%s", err, text)
	}
	// What is cut off the end is found, and so is a byte.
	for name, changed := range map[string][]byte{
		"cut":  text[:strings.LastIndex(strings.TrimSpace(string(text)), "\n")+1],
		"byte": []byte(strings.Replace(string(text), `"outcome":"ok"`, `"outcome":"OK"`, 1)),
	} {
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if o := h.run(t, "audit", "verify", "--file", h.file); o.code != exitUsage || !strings.Contains(o.stdout, "CHANGED") {
			t.Errorf("%s in %s: %+v", name, filepath.Base(path), o)
		}
	}
}

// A record that is gone altogether is found while the store knows of it, with its
// folder too. Where nobody knows of one there is none, and asking makes nothing.
func TestVerifyFindsThatTheRecordIsGone(t *testing.T) {
	t.Parallel()
	for _, with := range []string{"the files", "their folder"} {
		t.Run(with, func(t *testing.T) {
			h := newHome(t)
			folder := h.path("records")
			h.write(t, servers{"a": fake()}, map[string]any{"audit": map[string]any{"path": filepath.Join(folder, "audit.jsonl"), "mode": "required"}})
			verify := func() outcome { return h.run(t, "audit", "verify", "--file", h.file) }
			if o := verify(); o.code != exitUnreachable || !strings.Contains(o.stderr, "there is no audit log") {
				t.Errorf("before the first start: %+v", o)
			}
			if left, err := filepath.Glob(filepath.Join(h.dir, "state", "*", "*")); err != nil || len(left) > 0 {
				t.Errorf("asking made %v, %v", left, err)
			}
			p, url := h.up(t)
			post(t, newClient(t), url, "", mcp.MethodToolsCall, "a__echo", `"name":"a__echo","arguments":{},`)
			if code := p.stop(t, syscall.SIGTERM); code != exitOK {
				t.Fatalf("exit code %d", code)
			}
			if o := verify(); o.code != exitOK {
				t.Errorf("with its record: %+v", o)
			}
			if with == "the files" {
				if err := os.Remove(filepath.Join(folder, "audit.jsonl")); err != nil {
					t.Fatal(err)
				}
			} else if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			if o := verify(); o.code != exitUsage || !strings.Contains(o.stdout, "CHANGED") || !strings.Contains(o.stdout, "is gone") {
				t.Errorf("without its record: %+v", o)
			}
			if o := h.run(t, "audit", "search", "--file", h.file); o.code != exitUnreachable {
				t.Errorf("search: %+v", o)
			}
			if err := os.Remove(h.stateFile(t, "store.db")); err != nil {
				t.Fatal(err)
			}
			if o := verify(); o.code != exitUnreachable || !strings.Contains(o.stderr, "there is no audit log") {
				t.Errorf("without its store: %+v", o)
			}
		})
	}
}
