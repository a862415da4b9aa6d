package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/revision"
)

// versions are all revisions, oldest first.
var versions = revision.Versions[:]

// openAt initializes a session of a revision.
func (r *rig) openAt(version mcp.Version) string {
	r.t.Helper()
	w := r.post(strings.Replace(initBody, "2025-11-25", string(version), 1))
	if got, _ := mcp.LookupString(raw(w.text()), "result", "protocolVersion"); got != string(version) {
		r.t.Fatalf("asked for %s, got %s", version, w.text())
	}
	return w.field("Mcp-Session-Id")
}

// Clients of every revision get their own lists of one catalog, whole, filtered or by
// page, also concurrently.
func TestListsByRevision(t *testing.T) {
	const odd = `tool {"name":"odd","title":"Odd","outputSchema":{"type":"array"},"inputSchema":{"type":"object","properties":{"a":true}},"execution":{"taskSupport":"required"}}`
	want := map[mcp.Version]string{
		mcp.V20241105: `{"name":"s__odd","inputSchema":{"type":"object","properties":{"a":{}}}}`,
		mcp.V20250326: `{"annotations":{"title":"Odd"},"name":"s__odd","inputSchema":{"type":"object","properties":{"a":{}}}}`,
		mcp.V20250618: `{"name":"s__odd","title":"Odd","inputSchema":{"type":"object","properties":{"a":{}}}}`,
		mcp.V20251125: `{"name":"s__odd","title":"Odd","inputSchema":{"type":"object","properties":{"a":{}}},"execution":{"taskSupport":"required"}}`,
		mcp.V20260728: `{"name":"s__odd","title":"Odd","outputSchema":{"type":"array"},"inputSchema":{"type":"object","properties":{"a":true}}}`,
	}
	shown := strings.ReplaceAll(strings.TrimPrefix(tool("a"), "tool "), `"a"`, `"s__a"`)
	setups := map[string]func(*Options, *Config){
		"whole": func(*Options, *Config) {}, "filtered": hide("hidden"), "paged": small(2),
	}
	for name, setup := range setups {
		b := newScript(t, "s", mcp.Legacy)
		b.offer(t, mcp.Legacy, legacyTasks, tool("a"), odd, tool("z"), tool("hidden"))
		r := newRig(t, mounted(b), setup)
		var wg sync.WaitGroup
		for range 4 {
			for _, version := range versions {
				ask := func() string {
					session := r.openAt(version)
					return r.legacy(session, "1", "tools/list", "").text()
				}
				if version.Era() == mcp.Modern {
					ask = func() string { return r.modern("1", "tools/list", "").text() }
				}
				wg.Go(func() {
					body := raw(ask())
					list := mcp.Lookup(body, "result", "tools")
					var got string
					for e := range mcp.Elements(list) {
						item := string(e.Of(list))
						switch name, _ := mcp.LookupString(raw(item), "name"); name {
						case "s__odd":
							got = item
						case "s__a":
							if item != shown {
								t.Errorf("%s, %s: a is %s", name, version, item)
							}
						}
					}
					if name == "paged" && got == "" {
						return // after the first page
					}
					if got != want[version] {
						t.Errorf("%s, %s:\ngot  %s\nwant %s", name, version, got, want[version])
					}
				})
			}
		}
		wg.Wait()
	}
}

// Revisions with the same list share its bytes, and unchanged items are not copied.
func TestListMemory(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("a"), `prompt {"name":"p","title":"P"}`)
	r := newRig(t, mounted(b))
	for _, version := range versions[:len(versions)-1] {
		session := r.openAt(version)
		r.legacy(session, "1", "tools/list", "")
		r.legacy(session, "2", "prompts/list", "")
	}
	r.modern("1", "tools/list", "")
	catalog := r.snapshot.Load().catalog
	bodies := map[mcp.Kind]map[*byte]bool{mcp.Tool: {}, mcp.Prompt: {}}
	for key, p := range catalog.pages.pages {
		if key.era == mcp.Legacy {
			bodies[key.kind][&p.body[0]] = true
		}
	}
	if len(bodies[mcp.Tool]) != 1 || len(bodies[mcp.Prompt]) != 2 {
		t.Errorf("%d bodies of one list of tools, %d of two lists of prompts", len(bodies[mcp.Tool]), len(bodies[mcp.Prompt]))
	}
	route := catalog.lists[mcp.Tool].entries[0]
	for rev := range revision.Count {
		if item := route.listed(rev, ""); &item[0] != &route.raw[0] {
			t.Errorf("%s: a copy of an item that needs nothing", revision.Versions[rev])
		}
	}
}

// A filtered list is rendered for each caller; its items are not.
func BenchmarkFilteredList(b *testing.B) {
	items := make([]string, 0, 200)
	for i := range 200 {
		items = append(items, fmt.Sprintf(`tool {"name":"t%d","title":"T","icons":[{"src":"x:y"}],"inputSchema":{"type":"object"}}`, i))
	}
	r := newRig(b, mounted(newScript(b, "s", mcp.Legacy, items...)), hide("t0"))
	for _, version := range versions {
		x := &Exchange{Identity: person("alice"), Era: version.Era(), Version: version, Message: listMessage(b)}
		b.Run(string(version), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.list(b.Context(), x, mcp.Tool)
			}
		})
	}
}

func listMessage(t testing.TB) mcp.Message {
	t.Helper()
	msg, err := mcp.Parse(raw(request("1", "tools/list", "{}")), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return msg
}
