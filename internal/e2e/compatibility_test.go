//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// compatibilityFile is the generated page.
const compatibilityFile = "../../docs/compatibility.md"

// stepTitles name the steps of the script for a reader.
var stepTitles = map[string]string{
	"list":          "list",
	"call_int64":    "call, 64-bit integer",
	"read_resource": "read a resource",
	"get_prompt":    "get a prompt",
	"progress":      "progress",
	"cancel":        "cancel",
	"list_changed":  "list change",
}

// matrixPart begins what internal/matrix writes at the end of the page.
const matrixPart = "<!-- matrix: begin -->"

// TestCompatibilityTable holds the table to the clients, their pinned versions
// and limits. With -update it is written anew; the part of internal/matrix stays
// as it is.
func TestCompatibilityTable(t *testing.T) {
	have, err := os.ReadFile(compatibilityFile)
	if err != nil {
		t.Fatal(err)
	}
	want := compatibilityTable(t)
	if at := strings.Index(string(have), matrixPart); at >= 0 {
		want += "\n" + string(have[at:])
	}
	if *update {
		if err := os.WriteFile(compatibilityFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		have = []byte(want)
	}
	if diff := cmp.Diff(want, string(have)); diff != "" {
		t.Errorf("%s is not what limits_test.go says; run with -update (-want +have):\n%s", compatibilityFile, diff)
	}
}

// TestLimits holds limits to clients, transports, eras and steps that exist, and
// to one entry for each.
func TestLimits(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range limits {
		cells := 0
		for _, c := range clients {
			for _, era := range eras {
				for _, transport := range c.transports(era) {
					if !l.applies(c.name, target{Transport: transport, Era: era}, false) {
						continue
					}
					cells++
					key := strings.Join([]string{c.name, era, transport, l.step}, "/")
					if seen[key] {
						t.Errorf("two limits for %s", key)
					}
					seen[key] = true
				}
			}
		}
		if cells == 0 {
			t.Errorf("the limit %s of %s is about no client that is run", l.step, l.client)
		}
		if stepTitles[l.step] == "" || l.detail == "" || l.because == "" {
			t.Errorf("the limit %s of %s lacks something: %+v", l.step, l.client, l)
		}
	}
}

// compatibilityTable renders one row per client and era, and a row of notes for
// each limit.
func compatibilityTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Compatibility\n\n" +
		"What clients do through toolgate, each over every transport that it has. The same\n" +
		"script runs directly against a server first; what a client cannot do there is a\n" +
		"note below, and a note that stops being true fails the tests.\n\n" +
		"<!-- Written by internal/e2e with -update; every cell is run by its tests. -->\n\n")
	b.WriteString("| client | version | revision | transports |")
	for _, step := range steps {
		fmt.Fprintf(&b, " %s |", stepTitles[step])
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", len(steps)) + "\n")
	notes := map[string]int{}
	var order []string
	for _, c := range clients {
		for _, era := range eras {
			transports := c.transports(era)
			if len(transports) == 0 {
				continue
			}
			revision := "2025-11-25"
			if era == "modern" {
				revision = "2026-07-28"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |", c.about, pinnedVersion(t, c.name), revision, transportTitles(transports))
			for _, step := range steps {
				var marks []string
				broken := 0
				for _, l := range limits {
					on := 0
					for _, transport := range transports {
						if l.step == step && l.applies(c.name, target{Transport: transport, Era: era}, true) {
							on++
						}
					}
					if on == 0 {
						continue
					}
					broken += on
					note := l.because
					if l.transport != "" {
						note = transportTitles([]string{l.transport}) + ": " + note
					}
					if notes[note] == 0 {
						order = append(order, note)
						notes[note] = len(order)
					}
					marks = append(marks, fmt.Sprintf("%d", notes[note]))
				}
				word := "yes"
				switch {
				case broken == len(transports):
					word = "no"
				case broken > 0:
					word = "partly"
				}
				if step == "call_int64" && word == "no" && c.name != "inspector" {
					word = "as text"
				}
				if len(marks) > 0 {
					word += " (" + strings.Join(marks, ", ") + ")"
				}
				fmt.Fprintf(&b, " %s |", word)
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\nThese limits are the clients' own: they are the same without toolgate in between.\n\n")
	for i, note := range order {
		fmt.Fprintf(&b, "%d. %s.\n", i+1, strings.ToUpper(note[:1])+note[1:])
	}
	return b.String()
}

func transportTitles(transports []string) string {
	titles := map[string]string{"http": "streamable HTTP", "sse": "HTTP+SSE", "stdio": "stdio"}
	var all []string
	for _, transport := range transports {
		all = append(all, titles[transport])
	}
	return strings.Join(all, ", ")
}

// pinnedVersion reads the version of a client from where it is pinned.
func pinnedVersion(t *testing.T, client string) string {
	t.Helper()
	pins := map[string]struct{ file, name string }{
		"inspector":        {"node/package.json", "@modelcontextprotocol/inspector"},
		"typescript-sdk-1": {"node/package.json", "@modelcontextprotocol/sdk"},
		"typescript-sdk-2": {"node/package.json", "@modelcontextprotocol/client"},
		"python-sdk":       {"python/requirements.txt", "mcp"},
		"fastmcp":          {"python/requirements.txt", "fastmcp"},
		"go-sdk":           {"../../go.mod", "github.com/modelcontextprotocol/go-sdk"},
		"mcp-go":           {"../../go.mod", "github.com/mark3labs/mcp-go"},
	}
	pin, ok := pins[client]
	if !ok {
		t.Fatalf("no pinned version is known for %s", client)
	}
	data, err := os.ReadFile(filepath.FromSlash(pin.file))
	if err != nil {
		t.Fatalf("reading pinned versions: %v", err)
	}
	var version string
	switch filepath.Ext(pin.file) {
	case ".json":
		var pkg struct {
			Dependencies map[string]string `json:"dependencies"`
		}
		if err := json.Unmarshal(data, &pkg); err != nil {
			t.Fatalf("reading pinned versions: %v", err)
		}
		version = pkg.Dependencies[pin.name]
	case ".txt":
		if m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(pin.name) + `==(\S+)$`).FindSubmatch(data); m != nil {
			version = string(m[1])
		}
	default:
		if m := regexp.MustCompile(regexp.QuoteMeta(pin.name) + ` v(\S+)`).FindSubmatch(data); m != nil {
			version = string(m[1])
		}
	}
	if version == "" {
		t.Fatalf("%s pins no version of %s", pin.file, pin.name)
	}
	return version
}
