package proxy

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

var exposable = regexp.MustCompile(`^[A-Za-z0-9_-]{1,45}$`)

// Names never depend on other servers, fit every client, and lead back to one tool.
func TestNamesAreIndependent(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "A", "read", "Read", "READ", ".", "/", "__", "-", " ", "é", "\u212a", "\x00", "very_long_name_of_a_tool_that_goes_on", "0"}
	word := func() string {
		var b strings.Builder
		for range 1 + random.IntN(4) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	for range 200 {
		var mounts []Mount
		originals := map[string][]string{}
		for i := range 1 + random.IntN(4) {
			name := fmt.Sprintf("s%d", i)
			seen := map[string]bool{}
			var items []string
			for range 1 + random.IntN(8) {
				if w := word(); !seen[w] {
					seen[w] = true
					originals[name] = append(originals[name], w)
					items = append(items, `tool {"name":`+string(mcp.Quote(w))+`}`)
				}
			}
			mounts = append(mounts, Mount{Backend: newScript(t, name, mcp.Modern, items...), Namespace: name})
		}
		together := exposedOf(newRig(t, mounts))
		for i := range mounts {
			alone := exposedOf(newRig(t, mounts[i:i+1]))
			for key, name := range alone {
				if together[key] != name {
					t.Fatalf("%q is %q alone and %q with others", key, name, together[key])
				}
			}
		}
		total, taken := 0, map[string]string{}
		for server, names := range originals {
			total += len(names)
			for _, original := range names {
				key := server + "\x00" + original
				name := together[key]
				if !exposable.MatchString(name) || !strings.HasPrefix(name, server+"__") {
					t.Fatalf("%q is exposed as %q", key, name)
				}
				if other, ok := taken[strings.ToLower(name)]; ok {
					t.Fatalf("%q and %q are both %q but for case", key, other, name)
				}
				taken[strings.ToLower(name)] = key
			}
		}
		if len(together) != total {
			t.Fatalf("%d tools are listed, want %d", len(together), total)
		}
	}
}

// exposedOf maps server and original name to the exposed name.
func exposedOf(r *rig) map[string]string {
	out := map[string]string{}
	for _, route := range r.snapshot.Load().catalog.lists[mcp.Tool].entries {
		out[route.Server+"\x00"+route.Original] = route.Exposed
	}
	return out
}

// The server gets its own name, whatever the exposed one is.
func TestOriginalNamesGoBack(t *testing.T) {
	originals := []string{"plain", "a.b", "größe", "Read", "read", strings.Repeat("l", 120), "with__two", `quo"te`}
	var items []string
	for _, name := range originals {
		items = append(items, `tool {"name":`+string(mcp.Quote(name))+`}`)
	}
	b := newScript(t, "s", mcp.Modern, items...)
	r := newRig(t, mounted(b))
	for key, name := range exposedOf(r) {
		r.modern("1", "tools/call", `"name":`+string(mcp.Quote(name)))
		calls := b.seen("")
		got, _ := mcp.LookupString(calls[len(calls)-1].Params, "name")
		if _, want, _ := strings.Cut(key, "\x00"); got != want || calls[len(calls)-1].Key != want {
			t.Errorf("%q was called as %q, want %q", name, got, want)
		}
	}
	if got := len(b.seen("")); got != len(originals) {
		t.Errorf("%d calls, want %d", got, len(originals))
	}
	// The original name alone is unknown.
	if w := r.modern("1", "tools/call", `"name":"plain"`); !strings.Contains(w.text(), "Unknown tool: plain") {
		t.Errorf("the name without its namespace: %s", w.text())
	}
}

// With an empty namespace names are exposed unchanged. If two servers have the same
// name, the first by key always keeps it.
func TestNoNamespace(t *testing.T) {
	items := []string{tool("a.b"), `resource {"uri":"file:///r","name":"r"}`}
	one, two := newScript(t, "one", mcp.Modern, items...), newScript(t, "two", mcp.Modern, items...)
	for _, mounts := range [][]Mount{{{Backend: one}, {Backend: two}}, {{Backend: two}, {Backend: one}}} {
		r := newRig(t, mounts)
		names, _ := listed(t, mcp.Tool, r.modern("1", "tools/list", ""))
		if !slices.Equal(names, []string{"a.b"}) {
			t.Errorf("listed %v", names)
		}
		r.modern("1", "tools/call", `"name":"a.b"`)
	}
	if len(one.seen("")) != 2 || len(two.seen("")) != 0 {
		t.Errorf("%d calls of the first, %d of the second; want 2 and 0", len(one.seen("")), len(two.seen("")))
	}
}

// Every method takes the exposed URI and gives the server its own.
func TestURIsGoBack(t *testing.T) {
	b := newScript(t, "n", mcp.Modern, `resource {"uri":"file:///r","name":"r"}`, `resource {"uri":"ui://app/x","name":"x"}`, `template {"uriTemplate":"file:///{p}","name":"t"}`)
	r := newRig(t, mounted(b))
	for _, kind := range []struct {
		kind mcp.Kind
		want []string
	}{
		{mcp.Resource, []string{"n+file:///r", "ui://n+app/x"}},
		{mcp.Template, []string{"n+file:///{p}"}},
	} {
		if names, _ := listed(t, kind.kind, r.modern("1", kind.kind.ListMethod(), "")); !slices.Equal(names, kind.want) {
			t.Errorf("%s: listed %v, want %v", kind.kind, names, kind.want)
		}
	}
	var got []string
	ask := func(method, members string) {
		before := len(b.seen(""))
		w, leave := r.begin(modernRequest(modernBody("1", method, members, "")))
		testwait.Until(t, patience, "the request reaches the server", func() bool { return len(b.seen("")) > before })
		leave()
		<-w.done
		got = append(got, string(mcp.RemoveMember(b.seen("")[before].Params, "_meta")))
	}
	ask("resources/read", `"uri":"n+file:///r"`)
	ask("resources/read", `"uri":"n+file:///made/from/a/template"`)
	ask("resources/read", `"uri":"ui://n+app/x"`)
	ask("completion/complete", `"ref":{"type":"ref/resource","uri":"n+file:///{p}"}`)
	ask("completion/complete", `"ref":{"type":"ref/resource","uri":"n+file:///r"}`)
	ask("subscriptions/listen", `"notifications":{"resourceSubscriptions":["n+file:///r"]}`)
	want := []string{
		`{"uri":"file:///r"}`, `{"uri":"file:///made/from/a/template"}`, `{"uri":"ui://app/x"}`,
		`{"ref":{"type":"ref/resource","uri":"file:///{p}"}}`, `{"ref":{"type":"ref/resource","uri":"file:///r"}}`, `{"uri":"file:///r"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the server was asked (-want +got):\n%s", diff)
	}
}

// A server offers only a few names of one hash and kind, in all its sets of definitions
// together. They never displace another server's names.
func TestNamesOfOneHash(t *testing.T) {
	var alike []string
	for i := range 50 {
		alike = append(alike, tool(fmt.Sprintf("x%02d", i)))
	}
	hostile := newScript(t, "a", mcp.Modern, append(alike, tool("own"))...)
	hostile.listing.Eras, hostile.listing.Other = 2, newScript(t, "a", mcp.Legacy, alike...).listing
	mounts := mounted(hostile, newScript(t, "b", mcp.Modern, tool("x00")))
	hash := func(name string) int {
		if strings.Contains(name, "__x") {
			return 7
		}
		return len(name)
	}
	r := newRig(t, mounts, func(o *Options, _ *Config) { o.NameHash = hash })
	want := []string{"a__own", "a__x00", "a__x01", "a__x02", "a__x03", "a__x04", "a__x05", "a__x06", "a__x07", "b__x00"}
	modern, _ := listed(t, mcp.Tool, r.modern("1", "tools/list", ""))
	if !slices.Equal(modern, want) {
		t.Errorf("a modern client is listed %q, want %q", modern, want)
	}
	session := r.openAs(mcp.V20251125, `{"elicitation":{}}`)
	legacy, _ := listed(t, mcp.Tool, r.legacy(session, "1", "tools/list", ""))
	if want := want[1:]; !slices.Equal(legacy, want) {
		t.Errorf("a legacy client is listed %q, want %q", legacy, want)
	}
	if got := r.snapshot.Load().names(); !slices.Equal(got, want) {
		t.Errorf("policies are told of %q, want %q", got, want)
	}
	if w := r.modern("2", "tools/call", `"name":"a__x08"`); !strings.Contains(w.text(), "Unknown tool: a__x08") || len(hostile.seen(mcp.MethodToolsCall)) > 0 {
		t.Errorf("a call of what is not offered: %s", w.text())
	}
	if !strings.Contains(r.log.String(), "share a hash with too many") {
		t.Error("nobody is told")
	}
	if got := newRig(t, mounts); len(got.snapshot.Load().names()) < 50 {
		t.Error("names are bounded that nobody looks for by a hash")
	}
}
