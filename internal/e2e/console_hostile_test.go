//go:build e2e && unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
)

const (
	// hostileText is how long the texts of hostile servers and callers are, in bytes.
	hostileText = 1 << 20
	// maxPage is how large a page of them may be.
	maxPage = 2 << 20
)

// TestConsoleHostile shows published payloads in Chromium in every view: as the names,
// descriptions and schemas of tools, as arguments, results, questions and reasons, and as what
// somebody searches for, some of them 1 MB long. Nothing runs, nothing is loaded, and the
// content security policy has nothing to report.
func TestConsoleHostile(t *testing.T) {
	t.Parallel()
	need(t, browser())
	payloads := hostilePayloads(t)
	all := strings.ToValidUTF8(strings.Join(payloads, "\n"), "?") + "\n"
	long := strings.ToValidUTF8(strings.Repeat(all, 1+hostileText/len(all))[:hostileText], "")
	d := hostileDesk(payloads, long)
	w := consoleGateway(t, d, object{
		"audit": object{"fields": object{"desk__*": []string{"/text"}}},
	})
	c := &raw{url: w.mcp, key: ownerKey}
	names, err := c.toolNames(t.Context())
	if err != nil || len(names) < 100 { // definitions with hidden characters are held
		t.Fatalf("%d tools: %v", len(names), err)
	}
	w.toolgate(t, "catalog", "accept", "desk__long")
	for i, name := range []string{"desk__p0", "desk__long", "desk__send_letter"} {
		args := object{"text": part(long, hostileText-hostileText/8)}
		if name == "desk__send_letter" {
			args = object{"to": payloads[i], "urgent": true, "extra": args["text"]}
		}
		if _, err := c.callTool(t.Context(), name, args); err != nil && name != "desk__send_letter" {
			t.Fatalf("%s: %v", name, err)
		}
	}
	changed := *d
	changed.Tools = append([]object{}, d.Tools...)
	changed.Tools[2] = deskTool("shred", part(long, hostileText/2), object{"type": "object", "title": payloads[0]})
	w.change(t, &changed, "desk__shred")
	w.toolgate(t, "catalog", "disable", "desk__fail", "--reason", payloads[3])
	w.toolgate(t, "mode", "ALERT", "--reason", payloads[5])
	paths := []string{"/now", "/calls", "/catalog", "/catalog/entry?name=desk__shred", "/catalog/entry?name=desk__long", "/catalog/entry?name=desk__fail", "/try", "/try/tool?name=desk__long", "/budgets", "/approvals", "/runs", "/jobs", "/searches", "/replicas", "/access/replay"}
	var asked []struct{ ID string }
	if w.read(t, &asked, "approvals", "ls"); len(asked) != 1 {
		t.Fatalf("questions: %+v", asked)
	}
	paths = append(paths, "/approvals/"+asked[0].ID)
	testwait.Until(t, startTimeout, "calls are in the audit log", func() bool { return w.callOf(t, "desk__long") != "" })
	paths = append(paths, "/calls/"+w.callOf(t, "desk__long"), "/calls/"+w.callOf(t, "desk__send_letter"))
	var searched []string
	for i, p := range payloads {
		q := url.QueryEscape(p)
		paths = append(paths, "/access?name="+q+"&as="+q+"&args="+q, "/catalog/entry?kind=tool&name=desk__p"+strconv.Itoa(i))
		switch i % 3 { // each page takes its time
		case 0:
			paths = append(paths, "/try/tool?name=desk__p"+strconv.Itoa(i))
		case 1:
			paths = append(paths, "/catalog?server="+q+"&kind="+q)
		case 2:
			searched = append(searched, p)
		}
	}
	b := w.browse(t, "console_hostile.mjs", object{"paths": paths, "payloads": payloads, "searched": searched, "tried": []string{"desk__p0", "desk__long", "desk__ask"}, "key": ownerKey, "most": maxPage})
	if want := fmt.Sprint(len(paths) + 3 + len(searched)); string(b.Facts["seen"]) != want {
		t.Errorf("%s of %s pages are seen", b.Facts["seen"], want)
	}
}

// part is the beginning of a text, of whole characters.
func part(text string, size int) string {
	return strings.ToValidUTF8(text[:size], "")
}

// hostilePayloads are those of the tests of internal/console.
func hostilePayloads(t *testing.T) (all []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(lab.root, "internal", "console", "testdata", "hostile.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var s string
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) < 100 {
		t.Fatalf("%d payloads", len(all))
	}
	return all
}

// hostileDesk is a desk with a tool for each payload, and one whose texts are long.
func hostileDesk(payloads []string, long string) *desk {
	d := newDesk()
	d.Answers = map[string]string{"long": long}
	for i, p := range payloads {
		tool := deskTool("p"+strconv.Itoa(i), p, object{
			"type": "object", "title": p, "description": p,
			"properties": object{
				"text": object{"type": "string", "title": p, "description": p, "default": p}, p: object{"enum": []string{p}, "description": p},
				"list": object{"type": "array", "items": object{"type": "string", "description": p}, "default": []string{p}},
			},
		})
		tool["title"] = p
		d.Tools = append(d.Tools, tool)
		d.Answers["p"+strconv.Itoa(i)] = p
	}
	d.Tools = append(d.Tools, deskTool("long", long, object{"type": "object", "properties": object{"text": object{"type": "string", "description": part(long, hostileText/8)}}}))
	d.Questions["ask"] = object{"message": part(long, hostileText/4), "requestedSchema": object{"type": "object", "properties": object{"answer": object{"type": "string", "title": payloads[0], "description": strings.Join(payloads, " ")}}}}
	return d
}
