package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// listed returns the names of one page and the cursor of the next.
func listed(t testing.TB, kind mcp.Kind, w *recorder) (names []string, cursor string) {
	t.Helper()
	body := []byte(w.text())
	items := mcp.Lookup(body, "result", kind.ListKey())
	if !mcp.IsArray(items) {
		t.Fatalf("no list: %s", body)
	}
	for e := range mcp.Elements(items) {
		name, _ := mcp.LookupString(e.Of(items), kind.KeyMember())
		names = append(names, name)
	}
	cursor, _ = mcp.LookupString(body, "result", "nextCursor")
	return names, cursor
}

// walk reads all pages of the tools and returns them.
func (r *rig) walk(headers ...string) (pages [][]string) {
	r.t.Helper()
	cursor := ""
	for range 100 {
		members := ""
		if cursor != "" {
			members = `"cursor":"` + cursor + `"`
		}
		var names []string
		names, cursor = listed(r.t, mcp.Tool, r.modern("1", "tools/list", members, headers...))
		pages = append(pages, names)
		if cursor == "" {
			return pages
		}
	}
	r.t.Fatal("the pages have no end")
	return nil
}

func small(page int) func(*Options, *Config) {
	return func(o *Options, _ *Config) { o.Limits.Page = page }
}

func TestPages(t *testing.T) {
	var items []string
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(10) {
		items = append(items, tool(fmt.Sprintf("t%d", i)))
	}
	b := newScript(t, "b", mcp.Modern, items...)
	a := newScript(t, "a", mcp.Modern, tool("z"), tool("y"))
	r := newRig(t, mounted(b, a), small(5))
	want := [][]string{{"a__y", "a__z", "b__t0", "b__t1", "b__t2"}, {"b__t3", "b__t4", "b__t5", "b__t6", "b__t7"}, {"b__t8", "b__t9"}}
	if diff := cmp.Diff(want, r.walk()); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	// The last page ends the list, even when it is full.
	if got := newRig(t, mounted(b), small(5)).walk(); len(got) != 2 || len(got[1]) != 5 {
		t.Errorf("two full pages: %v", got)
	}
	if got := newRig(t, mounted(newScript(t, "n", mcp.Modern)), small(5)).walk(); len(got) != 1 || len(got[0]) != 0 {
		t.Errorf("an empty list: %v", got)
	}
	// Pages are bounded in bytes too, and always have at least one item.
	r = newRig(t, mounted(b), func(o *Options, _ *Config) { o.Limits.PageBytes = 60 })
	if got := r.walk(); len(got) != 10 {
		t.Errorf("%d pages of at most 60 bytes, want one item each: %v", len(got), got)
	}
	// Hidden items take no place on a page.
	r = newRig(t, mounted(b), small(2), hide("t0", "t1", "t2", "t3", "t8", "t9"))
	if diff := cmp.Diff([][]string{{"b__t4", "b__t5"}, {"b__t6", "b__t7"}}, r.walk()); diff != "" {
		t.Errorf("a filtered list (-want +got):\n%s", diff)
	}
}

// The same servers give the same bytes, whatever the order of the configuration and the
// lists, the replica or the time.
func TestListBytes(t *testing.T) {
	items := []string{tool("b"), tool("a"), tool("x.y"), tool("A")}
	body := func(r *rig) string { return r.modern("1", "tools/list", "").text() }
	one := newRig(t, mounted(newScript(t, "s", mcp.Legacy, items...), newScript(t, "t", mcp.Legacy, items...)), small(3))
	slices.Reverse(items)
	two := newRig(t, mounted(newScript(t, "t", mcp.Legacy, items...), newScript(t, "s", mcp.Legacy, items...)), small(3))
	if a, b := body(one), body(two); a != b || a != body(one) || !strings.Contains(a, "nextCursor") {
		t.Errorf("one: %s\ntwo: %s", a, b)
	}
}

// A cursor is valid only for its caller and list.
func TestCursors(t *testing.T) {
	items := []string{
		tool("a"), tool("b"), `prompt {"name":"a"}`, `prompt {"name":"b"}`,
		`resource {"uri":"x:a","name":"a"}`, `resource {"uri":"x:b","name":"b"}`, `template {"uriTemplate":"x:a","name":"a"}`, `template {"uriTemplate":"x:b","name":"b"}`,
	}
	r := newRig(t, mounted(newScript(t, "s", mcp.Modern, items...), newScript(t, "z", mcp.Modern, items...)), small(1))
	_, cursor := listed(t, mcp.Tool, r.modern("1", "tools/list", ""))
	flipped := []byte(cursor)
	flipped[8] ^= 1
	at := func(path, method, cursor, who string) *recorder {
		req := modernRequest(modernBody("1", method, `"cursor":`+cursor, ""), "Authorization", "Bearer "+who)
		own := httpRequest("POST", path, modernBody("1", method, `"cursor":`+cursor, ""))
		own.Header = req.Header
		return r.do(own)
	}
	quoted := `"` + cursor + `"`
	tests := []struct{ name, path, method, cursor, who string }{
		{"tampered", "/mcp", "tools/list", `"` + string(flipped) + `"`, "alice"},
		{"cut", "/mcp", "tools/list", `"` + cursor[:len(cursor)-1] + `"`, "alice"},
		{"made up", "/mcp", "tools/list", `"s__a"`, "alice"},
		{"empty", "/mcp", "tools/list", `""`, "alice"},
		{"a number", "/mcp", "tools/list", `1`, "alice"},
		{"an object", "/mcp", "tools/list", `{}`, "alice"},
		{"of another principal", "/mcp", "tools/list", quoted, "bob"},
		{"of another list", "/mcp", "prompts/list", quoted, "alice"},
		{"of resources for templates", "/mcp", "resources/templates/list", quoted, "alice"},
		{"of all servers at one", "/mcp/s/s", "tools/list", quoted, "alice"},
	}
	for _, tt := range tests {
		w := at(tt.path, tt.method, tt.cursor, tt.who)
		if w.text() != `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid cursor"}}` || w.code() != http.StatusOK {
			t.Errorf("%s: %d %s", tt.name, w.code(), w.text())
		}
	}
	for _, own := range []string{quoted, strings.Replace(quoted, "k", `\u006b`, 1)} {
		if names, _ := listed(t, mcp.Tool, at("/mcp", "tools/list", own, "alice")); len(names) != 1 || names[0] != "s__b" {
			t.Errorf("its own cursor %s gives %v", own, names)
		}
	}
	if names, _ := listed(t, mcp.Tool, at("/mcp", "tools/list", "null", "alice")); len(names) != 1 || names[0] != "s__a" {
		t.Errorf("a null cursor gives %v", names)
	}
	// A cursor of one session is valid in another era of the same caller.
	w := r.legacy(r.open(), "1", "tools/list", `{"cursor":`+quoted+`}`)
	if names, _ := listed(t, mcp.Tool, w); len(names) != 1 || names[0] != "s__b" {
		t.Errorf("in a legacy session: %s", w.text())
	}
}

// Changes between two pages neither hide nor repeat the items that stay.
func TestPagesOfAChangingList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("b"), tool("d"), tool("f"), tool("h"))
		r := newRig(t, mounted(b), small(2)).run()
		names, cursor := listed(t, mcp.Tool, r.modern("1", "tools/list", ""))
		if want := []string{"s__b", "s__d"}; !slices.Equal(names, want) {
			t.Fatalf("first page %v", names)
		}
		// The item of the cursor is removed, others are added before and after it.
		b.offer(t, mcp.Modern, everything, tool("a"), tool("b"), tool("e"), tool("f"), tool("h"), tool("i"))
		r.Changed("s")
		time.Sleep(time.Second)
		names, cursor = listed(t, mcp.Tool, r.modern("1", "tools/list", `"cursor":"`+cursor+`"`))
		if want := []string{"s__e", "s__f"}; !slices.Equal(names, want) {
			t.Errorf("second page %v, want %v", names, want)
		}
		b.offer(t, mcp.Modern, everything, tool("a"))
		r.Changed("s")
		time.Sleep(time.Second)
		if names, cursor = listed(t, mcp.Tool, r.modern("1", "tools/list", `"cursor":"`+cursor+`"`)); len(names) != 0 || cursor != "" {
			t.Errorf("third page %v, %q, want nothing", names, cursor)
		}
	})
}

// The gate decides on each item of a list. If it cannot decide, the list fails, so that
// nobody takes a part for the whole.
func TestListOfAnUndecidedGate(t *testing.T) {
	var asked []string
	r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("a"), tool("b"))), func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
			asked = append(asked, fmt.Sprintf("%s %s %s %s %s", r.Action, r.Kind, r.Server, r.Original, r.Identity.Subject))
			if r.Original == "b" {
				return gate.Decision{}, errBoom
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	})
	w := r.modern("1", "tools/list", "")
	if !strings.Contains(w.text(), `"error":{"code":1001,"message":"The gateway cannot decide`) || strings.Contains(w.text(), "s__a") {
		t.Errorf("%s", w.text())
	}
	if want := []string{"view tool s a alice", "view tool s b alice"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	for name, chain := range map[string]*gate.Chain{"zero chain": {}, "no chain": nil} {
		r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("a"))), func(_ *Options, c *Config) { c.Chain = chain })
		if names, _ := listed(t, mcp.Tool, r.modern("1", "tools/list", "")); len(names) != 0 {
			t.Errorf("%s shows %v", name, names)
		}
	}
}

// An item on which the gate cannot decide is hidden, and requests for it get the same
// bytes as for a missing one. Everything else is served, even of the same server.
func TestWhatCannotBeDecidedAloneIsHidden(t *testing.T) {
	items := []string{tool("a"), tool("bad"), `prompt {"name":"bad"}`, `resource {"uri":"file:///bad","name":"r"}`}
	one, two := newScript(t, "one", mcp.Modern, items...), newScript(t, "two", mcp.Modern, `prompt {"name":"bad"}`)
	one.listing.Instructions, two.listing.Instructions = "one says", "two says"
	var says error
	r := newRig(t, mounted(one, two), func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
			if strings.Contains(r.Original, "bad") {
				return gate.Decision{Effect: gate.Allow}, says
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	})
	says = fmt.Errorf("decide: %w", &gate.RequestError{Err: errBoom})
	if names, _ := listed(t, mcp.Tool, r.modern("1", "tools/list", "")); !slices.Equal(names, []string{"one__a"}) {
		t.Errorf("tools %v", names)
	}
	for _, kind := range []mcp.Kind{mcp.Prompt, mcp.Resource} {
		if names, _ := listed(t, kind, r.modern("1", kind.ListMethod(), "")); len(names) != 0 {
			t.Errorf("%s: %v", kind, names)
		}
	}
	if w := r.modern("1", "resources/read", `"uri":"one+file:///bad"`); !strings.Contains(w.text(), `"message":"Unknown resource: one+file:///bad"`) {
		t.Errorf("a resource: %s", w.text())
	}
	if w := r.modern("1", "server/discover", ""); !strings.Contains(w.text(), "one says") || strings.Contains(w.text(), "two says") {
		t.Errorf("discovery: %s", w.text())
	}
	for _, q := range []struct{ method, members, known, unknown string }{
		{"tools/call", `"name":"NAME"`, "one__bad", "one__xxx"},
		{"prompts/get", `"name":"NAME"`, "two__bad", "two__xxx"},
	} {
		got := r.modern("1", q.method, strings.Replace(q.members, "NAME", q.known, 1)).text()
		want := r.modern("1", q.method, strings.Replace(q.members, "NAME", q.unknown, 1)).text()
		if strings.ReplaceAll(got, q.known, q.unknown) != want {
			t.Errorf("%s: %s\nof what does not exist: %s", q.method, got, want)
		}
	}
	var denied []string
	for _, e := range r.ledger.all() {
		denied = append(denied, fmt.Sprint(e.Outcome, " ", e.Name, " ", e.Code))
		slices.Sort(denied)
		if strings.Contains(e.Name, "bad") && !strings.Contains(e.Reason, "boom") {
			t.Errorf("entry %+v", e)
		}
	}
	if want := []string{
		"denied one+file:///bad policy_error",
		"denied one__bad policy_error", "denied one__xxx -32602", "denied two__bad policy_error", "denied two__xxx -32602",
	}; !slices.Equal(denied, want) {
		t.Errorf("record %q, want %q", denied, want)
	}
	if got := len(one.seen("")) + len(two.seen("")); got != 0 {
		t.Errorf("%d calls reached a server", got)
	}
	says = errBoom
	if w := r.modern("1", "tools/list", ""); !strings.Contains(w.text(), `"error":{"code":1001`) {
		t.Errorf("a list that cannot be decided at all: %s", w.text())
	}
}

// /mcp/s/SERVER shows only that server: in lists, calls, reads and discovery.
func TestServerScope(t *testing.T) {
	items := []string{tool("echo"), `prompt {"name":"p"}`, `resource {"uri":"file:///r","name":"r"}`}
	one, two := newScript(t, "one", mcp.Modern, items...), newScript(t, "two", mcp.Modern, items...)
	two.listing.Instructions = "two's own"
	r := newRig(t, mounted(one, two))
	at := func(method, members string) *recorder {
		body := modernBody("1", method, members, "")
		req := httpRequest("POST", "/mcp/s/one", body)
		req.Header = modernRequest(body).Header
		return r.do(req)
	}
	if names, _ := listed(t, mcp.Tool, at("tools/list", "")); !slices.Equal(names, []string{"one__echo"}) {
		t.Errorf("tools %v", names)
	}
	if w := at("server/discover", ""); strings.Contains(w.text(), "two") {
		t.Errorf("discovery tells of another server: %s", w.text())
	}
	for _, q := range []struct{ method, members, answer string }{
		{"tools/call", `"name":"one__echo"`, `"result"`},
		{"tools/call", `"name":"two__echo"`, `Unknown tool`},
		{"prompts/get", `"name":"two__p"`, `Unknown prompt`},
		{"resources/read", `"uri":"one+file:///r"`, `"result"`},
		{"resources/read", `"uri":"two+file:///r"`, `Unknown resource`},
		{"resources/read", `"uri":"two+file:///unlisted"`, `Unknown resource`},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"two__p"}`, `Unknown prompt`},
	} {
		if w := at(q.method, q.members); !strings.Contains(w.text(), q.answer) {
			t.Errorf("%s %s: %s, want %s", q.method, q.members, w.text(), q.answer)
		}
	}
	if n := len(two.seen("")); n != 0 {
		t.Errorf("%d calls reached the other server", n)
	}
}

// An unlisted resource cannot be read by a URI that leads elsewhere than it says: the
// decision would be about another name.
func TestUnlistedResourcesByDetours(t *testing.T) {
	one := newScript(t, "one", mcp.Modern, `resource {"uri":"notes://box/a/../r","name":"r"}`)
	r := newRig(t, mounted(one))
	for uri, want := range map[string]string{
		"one+notes://box/pub/x": `"result"`, "one+notes://box/..a/.b/c.": `"result"`, "one+notes://box/a/../r": `"result"`, "one+notes:x?y=a/b": `"result"`,
		"one+notes://box/pub/../secret": "Unknown resource", "one+notes://box/./secret": "Unknown resource", "one+notes://box/pub/%2e%2E/secret": "Unknown resource",
		`one+notes://box/pub\\..\\secret`: "Unknown resource", "one+notes://box/pub/..%2fsecret": "Unknown resource", "one+notes://box/pub/%252e%252e/secret": "Unknown resource",
		"one+notes://box/pub/..": "Unknown resource", "one+notes://box/pub/..?x": "Unknown resource", "one+notes://box/pub/.\\t./secret": "Unknown resource",
		"one+NOTES://box/pub/x": "Unknown resource", "one+ notes://box/x": "Unknown resource",
	} {
		body := modernBody("1", "resources/read", `"uri":"`+uri+`"`, "")
		if w := r.do(modernRequest(body)); !strings.Contains(w.text(), want) {
			t.Errorf("%s: %s, want %s", uri, w.text(), want)
		}
	}
}

// The ttlMs of a list is the shortest of the servers that contribute.
func TestListTTL(t *testing.T) {
	modern := newScript(t, "modern", mcp.Modern, tool("a"))
	modern.listing.TTL = map[mcp.Kind]time.Duration{mcp.Tool: 30 * time.Second}
	silent := newScript(t, "silent", mcp.Legacy, `prompt {"name":"p"}`)
	silent.listing.Capabilities = []byte(`{"tools":{}}`)
	telling := newScript(t, "telling", mcp.Legacy)
	stale := newScript(t, "stale", mcp.Modern)
	stale.listing.Stale = true
	unknown := &script{name: "unknown"}
	off := &script{name: "off", status: mcp.Status{State: mcp.Disabled}}
	failed := &script{name: "failed", status: mcp.Status{State: mcp.Failed}}
	lasting := newScript(t, "lasting", mcp.Modern)
	lasting.listing.TTL = map[mcp.Kind]time.Duration{mcp.Tool: 24 * time.Hour}
	moment := newScript(t, "moment", mcp.Modern)
	others := []*script{newScript(t, "prompts", mcp.Legacy), newScript(t, "nothing", mcp.Modern)}
	others[0].listing.Capabilities = []byte(`{"prompts":{},"resources":{}}`)
	others[1].listing.Capabilities = []byte(`{}`)
	for _, tt := range []struct {
		name    string
		servers []*script
		want    string
	}{
		{"none", nil, "3600000"},
		{"its own", []*script{modern}, "30000"},
		{"a legacy one that tells", []*script{telling}, "60000"},
		{"a legacy one that does not", []*script{modern, silent}, "10000"},
		{"a stale one", []*script{modern, telling, stale}, "5000"},
		{"one that is not known yet", []*script{modern, unknown}, "5000"},
		{"one that may come back", []*script{failed}, "5000"},
		{"one that is switched off", []*script{modern, off}, "30000"},
		{"longer than an hour", []*script{lasting}, "86400000"},
		{"the shorter of two", []*script{lasting, modern}, "30000"},
		{"a modern one that gives none", []*script{moment, modern}, "0"},
		{"those without tools", []*script{others[0], modern, others[1]}, "30000"},
		{"nobody with tools", others, "3600000"},
	} {
		r := newRig(t, mounted(tt.servers...), func(o *Options, _ *Config) { o.Limits.FirstList = -1 })
		w := r.modern("1", "tools/list", "")
		if got := string(mcp.Lookup([]byte(w.text()), "result", "ttlMs")); got != tt.want {
			t.Errorf("%s: ttlMs %s, want %s", tt.name, got, tt.want)
		}
		if scope, _ := mcp.LookupString([]byte(w.text()), "result", "cacheScope"); scope != "private" {
			t.Errorf("%s: cacheScope %q", tt.name, scope)
		}
	}
}

// TestListsAreRenderedApart renders a list while another one is being rendered, and the same
// list once for all who ask.
func TestListsAreRenderedApart(t *testing.T) {
	var lists keptPages
	slow, quick := pageKey{kind: mcp.Tool}, pageKey{kind: mcp.Prompt}
	rendered := func(body string) *keptPage { return &keptPage{page: &page{}, body: []byte(body)} }
	begun, end := make(chan struct{}), make(chan struct{})
	renders := 0
	all := make(chan *keptPage, 3)
	for range cap(all) {
		go func() {
			all <- lists.get(slow, func() *keptPage {
				renders++
				close(begun)
				<-end
				return rendered("slow")
			})
		}()
	}
	<-begun
	if got := lists.get(quick, func() *keptPage { return rendered("quick") }); string(got.body) != "quick" {
		t.Errorf("beside it: %s", got.body)
	}
	close(end)
	for range cap(all) {
		if got := <-all; string(got.body) != "slow" || renders != 1 {
			t.Errorf("%s, rendered %d times", got.body, renders)
		}
	}
}
