//go:build e2e && unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// browseTimeout bounds one script in a browser.
const browseTimeout = 4 * time.Minute

var consoleLine = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\n`)

// desk is what the server of the console's tests serves; see node/server_console.mjs.
type desk struct {
	Tools     []object          `json:"tools"`
	Questions map[string]object `json:"questions"`
	Answers   map[string]string `json:"answers"`
}

// deskTool is one tool of a desk.
func deskTool(name, description string, schema object) object {
	if schema == nil {
		schema = object{"type": "object"}
	}
	return object{"name": name, "description": description, "inputSchema": schema}
}

// letterSchema has every kind of field that a form has.
var letterSchema = object{
	"type": "object", "required": []string{"to", "urgent"},
	"properties": object{
		"to":     object{"type": "string", "title": "Recipient", "description": "Who gets the letter", "minLength": 2},
		"text":   object{"type": "string", "description": "What it says", "maxLength": 4000},
		"urgent": object{"type": "boolean", "default": false},
		"copies": object{"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
		"paper":  object{"enum": []string{"plain", "letterhead"}},
		"flags":  object{"type": "array", "items": object{"enum": []string{"tracked", "insured"}}},
		"sender": object{"type": "object", "properties": object{"name": object{"type": "string"}, "street": object{"type": "string"}}},
		"cc":     object{"type": "array", "items": object{"type": "string"}},
		"scan":   object{"type": "string", "contentEncoding": "base64"},
		"extra":  object{"description": "Anything"},
	},
}

// newDesk is a server with letters, a question and a tool that fails.
func newDesk() *desk {
	return &desk{
		Tools: []object{
			deskTool("send_letter", "Send a letter. Letters cannot be taken back.", letterSchema),
			deskTool("find_letters", "Find letters by their text.", object{"type": "object", "properties": object{"query": object{"type": "string"}}}),
			deskTool("shred", "Shred a letter for good.", object{"type": "object", "properties": object{"letter": object{"type": "string"}}}),
			deskTool("ask", "Ask the caller which drawer is meant.", nil),
			deskTool("fail", "Fail.", nil),
			deskTool("release", "Read the list of tools again.", nil),
		},
		Questions: map[string]object{"ask": {
			"message": "Which drawer is meant?",
			"requestedSchema": object{
				"type": "object", "required": []string{"drawer"},
				"properties": object{"drawer": object{"type": "string", "enum": []string{"upper", "lower"}}, "note": object{"type": "string", "maxLength": 40}},
			},
		}},
	}
}

// write writes what the server reads for each answer.
func (d *desk) write(t *testing.T, dir string) {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatalf("writing the tools of a server: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "desk.json"), data, 0o600); err != nil {
		t.Fatalf("writing the tools of a server: %v", err)
	}
}

// watched is a gateway with a console.
type watched struct {
	*gateway
	console string // URL without a path
}

// consoleGateway starts a gateway with a console, a desk, the demo server, and a server that
// does not start. The owner's key is Ann's, who has every role; Bob has none.
func consoleGateway(t *testing.T, d *desk, more object) *watched {
	t.Helper()
	script := filepath.Join(lab.cache, "node", "server_console.mjs")
	s := newSetup(t, object{
		"desk":   object{"command": need(t, lab.node), "args": []string{script, filepath.Join(dirMark, "desk.json")}},
		"demo":   object{"command": built(t, lab.toolgate), "args": []string{"demo-server"}},
		"broken": object{"command": filepath.Join(dirMark, "no-such-program")},
	}, with(withKeys(object{
		"registry":   object{"on_new": "adopt", "on_change": "hold"},
		"governance": object{"tools": object{"desk__send_letter": object{"class": "write", "risk": "high", "requires_approval": true}}},
		"approvals":  object{"wait": "1s", "by": []string{"operator"}},
		"budgets":    []object{{"name": "daily", "per": "subject", "limit": 200, "window": "day"}, {"name": "answers", "per": "server", "unit": "bytes", "limit": 1 << 30, "window": "hour"}},
	}), more))
	d.write(t, s.dir)
	g := s.up(t, "--set", "listen.console=127.0.0.1:0")
	g.waitTools(t, ownerKey, "desk__send_letter", "demo__add")
	at := strings.TrimSuffix(g.proc.waitFor(t, consoleLine, startTimeout), "/\n")
	return &watched{g, at}
}

// link makes a link that signs in one browser.
func (w *watched) link(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(w.toolgate(t, "console", "--no-browser"))
}

// toolgate runs a command beside the gateway, and returns what it prints.
func (w *watched) toolgate(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, built(t, lab.toolgate), append(args, "--config", w.file)...)
	cmd.Env, cmd.Dir = append(w.env, "TOOLGATE_API_KEY="+ownerKey), w.dir
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("toolgate %q: %v %s", args, err, complaints.String())
	}
	return string(out)
}

// read reads the JSON that a command prints.
func (w *watched) read(t *testing.T, into any, args ...string) {
	t.Helper()
	out := w.toolgate(t, append(args, "--output=json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("toolgate %q: %v in %.500s", args, err, out)
	}
}

// change serves other tools, and waits until the gateway holds the definition of one of them.
func (w *watched) change(t *testing.T, d *desk, name string) {
	t.Helper()
	d.write(t, w.dir)
	c := &raw{url: w.mcp, key: ownerKey}
	if _, err := c.callTool(t.Context(), "desk__release", object{}); err != nil {
		t.Fatalf("changing definitions: %v", err)
	}
	testwait.Until(t, startTimeout, "the gateway holds the definition of "+name, func() bool {
		return strings.Contains(w.toolgate(t, "catalog", "show", name), "held")
	})
}

// browsed is what a script in a browser says.
type browsed struct {
	Problems []string                   `json:"problems"`
	Facts    map[string]json.RawMessage `json:"facts"`
}

// browse runs a script of node in a browser, and fails t for each problem that it has found.
func (w *watched) browse(t *testing.T, script string, plan object) browsed {
	t.Helper()
	return w.browseFor(t, browseTimeout, script, plan)
}

// browseFor is browse for a script that may take longer.
func (w *watched) browseFor(t *testing.T, timeout time.Duration, script string, plan object) browsed {
	t.Helper()
	node, chromium := need(t, lab.node), need(t, browser())
	data, err := json.Marshal(with(object{"chromium": chromium, "url": w.console, "link": w.link(t)}, plan))
	if err != nil {
		t.Fatalf("writing the plan of %s: %v", script, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, filepath.Join(lab.cache, "node", script))
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.WaitDelay = w.env, w.dir, bytes.NewReader(data), 2*time.Second
	ownGroup(cmd)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, out, complaints.String())
	}
	var b browsed
	if err := json.Unmarshal(out, &b); err != nil {
		t.Fatalf("%s says %.500s: %v", script, out, err)
	}
	for _, problem := range b.Problems {
		t.Error(problem)
	}
	return b
}

// browser is a Chromium of this machine.
func browser() installed {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return installed{path: path}
		}
	}
	return installed{err: fmt.Errorf("this machine has no chromium")}
}
