package proxy

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/revision"
)

// hiders is a phase that hides items from callers, by their names at the server. Callers
// from whom it hides the same are one class.
type hiders struct {
	from     map[string][]string // by subject, sorted
	uncached bool
}

func (h *hiders) Part() gate.Part {
	return gate.Part{Name: "hiders", Check: h.Check, ViewClass: func(id *gate.Identity) (string, bool) {
		return strings.Join(h.from[id.Subject], ","), !h.uncached
	}}
}

func (h *hiders) Check(_ context.Context, r *gate.Request) (gate.Decision, error) {
	if slices.Contains(h.from[r.Identity.Subject], r.Original) {
		return gate.Decision{Effect: gate.Deny}, nil
	}
	return gate.Decision{Effect: gate.Allow}, nil
}

// listWith returns the page of a list behind a cursor as it is served, and as it is rendered
// anew from a catalog that keeps nothing.
func (r *rig) listWith(x Exchange, kind mcp.Kind, cursor string) (got, anew string, p *page) {
	r.t.Helper()
	params, key := "{}", pageKey{kind: kind, era: x.Era, revision: revision.Of(x.Version), scope: x.Scope}
	snap := r.snapshot.Load()
	catalog := newCatalog(snap.Catalog(&x).servers, nil)
	entries := snap.listed(catalog, x.Scope, kind)
	if cursor != "" {
		params = `{"cursor":` + string(mcp.Quote(cursor)) + `}`
		last, err := r.opts.Keys.Open(seal.Cursor, cursorContext(&x, kind), cursor)
		if err != nil {
			r.t.Fatal(err)
		}
		for key.start < len(entries) && entries[key.start].Exposed <= string(last) {
			key.start++
		}
	}
	var err error
	if x.Message, err = mcp.Parse(raw(request("1", kind.ListMethod(), params)), mcp.Limits{}); err != nil {
		r.t.Fatal(err)
	}
	answer := r.list(r.t.Context(), &x, kind)
	head, body, tail := envelope("1", &answer)
	got = string(slices.Concat(head, body, tail))
	if p, err = snap.visible(r.t.Context(), &x, entries[key.start:], &r.opts.Limits); err != nil {
		r.t.Fatal(err)
	}
	p.hide(r.t.Context(), snap, &x, kind)
	next := ""
	if p.more {
		if next, err = r.opts.Keys.Seal(seal.Cursor, cursorContext(&x, kind), []byte(p.routes[len(p.routes)-1].Exposed)); err != nil {
			r.t.Fatal(err)
		}
	}
	want := response{result: slices.Concat(renderItems(p, key), r.renderRest(catalog, &x, kind, p, next))}
	head, body, tail = envelope("1", &want)
	return got, string(slices.Concat(head, body, tail)), p
}

// TestKeptPages lets callers of different rights walk through lists in turns, while what is
// listed and what they may view changes. Each gets the pages that are rendered anew for them.
func TestKeptPages(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	subjects := []string{"alice", "bob", "carol"}
	phase := &hiders{from: map[string][]string{}}
	one, two := newScript(t, "one", mcp.Legacy), newScript(t, "two", mcp.Modern)
	r := newRig(t, mounted(one, two), func(o *Options, c *Config) {
		o.Limits.Page, o.Limits.PageBytes = 4, 400
		c.Chain = gate.NewChain(phase)
	})
	change := func() {
		for _, b := range []*script{one, two} {
			var items []string
			for i := range 12 {
				if random.IntN(6) > 0 {
					items = append(items, fmt.Sprintf(`tool {"name":"t%02d","title":"%d","inputSchema":{"type":"object"}}`, i, random.IntN(2)))
				}
				items = append(items, fmt.Sprintf(`prompt {"name":"p%02d","title":"%d"}`, i, random.IntN(2)))
			}
			b.offer(t, b.era(), everything, items...)
		}
		r.publisher.rebuild(t.Context())
	}
	hidden := 0
	for turn := range 150 {
		phase.uncached = turn%5 == 4
		if random.IntN(3) == 0 {
			change()
		}
		if who := subjects[random.IntN(3)]; random.IntN(2) == 0 {
			phase.from[who] = nil
			for range random.IntN(3) {
				phase.from[who] = append(phase.from[who], fmt.Sprintf("t%02d", random.IntN(12)), fmt.Sprintf("p%02d", random.IntN(12)))
			}
			slices.Sort(phase.from[who])
		}
		x := Exchange{Identity: person(subjects[random.IntN(3)])}
		x.Version = versions[random.IntN(len(versions))]
		x.Era = x.Version.Era()
		x.Scope.Server = []string{"", "", "one"}[random.IntN(3)]
		kind := []mcp.Kind{mcp.Tool, mcp.Prompt}[random.IntN(2)]
		cursor := ""
		for n := 0; n == 0 || cursor != ""; n++ {
			got, anew, p := r.listWith(x, kind, cursor)
			if got != anew {
				t.Fatalf("turn %d, page %d of %s:\ngot  %s\nanew %s", turn, n, x.Identity.Subject, got, anew)
			}
			for _, original := range phase.from[x.Identity.Subject] {
				if hidden++; strings.Contains(got, "__"+original+`"`) {
					t.Fatalf("turn %d: %s is hidden from %s: %s", turn, original, x.Identity.Subject, got)
				}
			}
			if cursor, _ = mcp.LookupString(raw(got), "result", "nextCursor"); (cursor != "") != p.more {
				t.Fatalf("turn %d: cursor %q, more %v", turn, cursor, p.more)
			}
		}
	}
	if hidden < 100 {
		t.Errorf("%d times something was hidden", hidden)
	}
}

// TestOddPagesAreNotKept asks for pages that begin wherever a cursor may lead. What is kept is
// the list once.
func TestOddPagesAreNotKept(t *testing.T) {
	var items []string
	for i := range 20 {
		items = append(items, tool(fmt.Sprintf("t%02d", i)))
	}
	phase := &hiders{from: map[string][]string{"bob": {"t01"}}}
	r := newRig(t, mounted(newScript(t, "s", mcp.Modern, items...)), small(3), func(_ *Options, c *Config) { c.Chain = gate.NewChain(phase) })
	x := Exchange{Identity: person("alice"), Era: mcp.Modern, Version: mcp.V20260728}
	kept := func(want ...int) {
		t.Helper()
		pages := &r.snapshot.Load().catalog.pages
		var starts []int
		size := 0
		for key, p := range pages.pages {
			starts, size = append(starts, key.start), size+len(p.body)
		}
		slices.Sort(starts)
		if !slices.Equal(starts, want) || pages.size != size || len(pages.made) != len(want) || len(pages.ends) > len(want) {
			t.Errorf("kept are %v in %d bytes, counted %d, want %v; %d were made, %d ends", starts, size, pages.size, want, len(pages.made), len(pages.ends))
		}
	}
	everywhere := func(x Exchange) {
		t.Helper()
		for i := range 22 {
			cursor, err := r.opts.Keys.Seal(seal.Cursor, cursorContext(&x, mcp.Tool), fmt.Appendf(nil, "s__t%02d", i-1))
			if err != nil {
				t.Fatal(err)
			}
			if got, anew, _ := r.listWith(x, mcp.Tool, cursor); got != anew {
				t.Fatalf("%s\nanew %s", got, anew)
			}
		}
	}
	bob := x
	bob.Identity = person("bob")
	r.listWith(bob, mcp.Tool, "")
	kept()
	r.listWith(x, mcp.Tool, "")
	kept(0)
	for range 3 {
		everywhere(bob)
		everywhere(x)
	}
	kept(0, 3, 6, 9, 12, 15, 18)
}

// The page of a caller from whom everything behind it is hidden has no cursor, whatever is
// kept, and also where the rules have changed while somebody else's was kept.
func TestTheEndOfAKeptPage(t *testing.T) {
	phase := &hiders{from: map[string][]string{"bob": {"d"}}}
	r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("a"), tool("b"), tool("c"), tool("d"))), small(3), func(_ *Options, c *Config) { c.Chain = gate.NewChain(phase) })
	x := Exchange{Identity: person("alice"), Era: mcp.Modern, Version: mcp.V20260728}
	r.listWith(x, mcp.Tool, "")
	snap := r.snapshot.Load()
	kept := snap.catalog.pages.find(pageKey{kind: mcp.Tool, era: x.Era, revision: revision.Of(x.Version)})
	if kept == nil || !snap.Chain.ViewedAll(x.Identity, "", kept.seen) {
		t.Fatal("the first page is not kept, or not known to be hers")
	}
	bob := x
	bob.Identity = person("bob")
	snap.Chain.LearnViews(t.Context(), bob.Identity, "", kept.seen)
	if got, anew, p := r.listWith(bob, mcp.Tool, ""); got != anew || p.more || strings.Contains(got, "nextCursor") {
		t.Errorf("got  %s\nanew %s", got, anew)
	}
}

// A catalog keeps no more pages than it has room for.
func TestKeptPagesAreBounded(t *testing.T) {
	var lists keptPages
	whole := make([]byte, maxKeptPages/2)
	for i := range 5 {
		body := bytes.Clone(whole)
		key := pageKey{kind: mcp.Tool, scope: Scope{Server: fmt.Sprint(i)}}
		if got := lists.get(key, func() *keptPage { return &keptPage{page: &page{}, body: body} }); &got.body[0] != &body[0] {
			t.Errorf("page %d is another one", i)
		}
		if kept := lists.find(key) != nil; kept != (i < 2) {
			t.Errorf("page %d is kept: %v", i, kept)
		}
	}
	if lists.size != maxKeptPages || len(lists.made) != 2 || len(lists.pages) != 2 {
		t.Errorf("%d bytes, %d made, %d pages", lists.size, len(lists.made), len(lists.pages))
	}
}
