package upstream

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// listed is a listing of tools; one is its name, or its name and its description
// behind a colon.
func listed(era mcp.Era, tools ...string) *mcp.Listing {
	l := &mcp.Listing{Era: era, Version: mcp.LatestLegacy, Capabilities: []byte(`{"tools":{}}`), Items: map[mcp.Kind][]mcp.Item{}}
	if era == mcp.Modern {
		l.Version = mcp.LatestModern
	}
	for _, tool := range tools {
		name, _, _ := strings.Cut(tool, ":")
		l.Items[mcp.Tool] = append(l.Items[mcp.Tool], mcp.Item{Key: name, Raw: []byte(`"` + tool + `"`)})
	}
	return l
}

// ofBoth makes a listing one of a server of two eras.
func ofBoth(l, other *mcp.Listing) *mcp.Listing {
	l.Eras, l.Other = 2, other
	return l
}

// definitions returns the tools of a listing but for the one by which one signs in.
func definitions(l *mcp.Listing) (all []string) {
	if l == nil {
		return []string{"none"}
	}
	for _, item := range l.Items[mcp.Tool] {
		if item.Key != SignInTool {
			all = append(all, strings.Trim(string(item.Raw), `"`))
		}
	}
	return all
}

// A union has the lists of each era.
func TestUnionsHaveBothEras(t *testing.T) {
	t.Parallel()
	stale := ofBoth(listed(mcp.Legacy, "echo"), nil)
	stale.Stale = true
	for _, tt := range []struct {
		name                  string
		all                   []*mcp.Listing
		before                *mcp.Listing
		era                   mcp.Era
		eras                  int
		own, other, otherThan string
	}{
		{"nobody", nil, nil, mcp.Legacy, 0, "", "none", ""},
		{"one era", []*mcp.Listing{listed(mcp.Modern, "echo")}, nil, mcp.Modern, 0, "echo", "none", ""},
		{"both", []*mcp.Listing{ofBoth(listed(mcp.Modern, "echo", "new"), listed(mcp.Legacy, "echo", "old"))}, nil, mcp.Modern, 2, "echo new", "echo old", "2025-11-25"},
		{"both, and the other one not read", []*mcp.Listing{ofBoth(listed(mcp.Modern, "echo"), nil)}, nil, mcp.Modern, 2, "echo", "none", ""},
		{"the second knows both", []*mcp.Listing{listed(mcp.Modern, "echo"), ofBoth(listed(mcp.Modern, "new"), listed(mcp.Legacy, "old"))}, nil, mcp.Modern, 2, "echo new", "echo old", "2025-11-25"},
		{"of different eras", []*mcp.Listing{ofBoth(listed(mcp.Legacy, "a"), listed(mcp.Modern, "b")), ofBoth(listed(mcp.Modern, "c"), listed(mcp.Legacy, "d"))}, nil, mcp.Legacy, 2, "a d", "b c", "2026-07-28"},
		{"a stale one of the other era", []*mcp.Listing{stale, ofBoth(listed(mcp.Modern, "c"), listed(mcp.Legacy, "d"))}, nil, mcp.Modern, 2, "echo c", "echo d", "2025-11-25"},
		{
			"the definition that was shown",
			[]*mcp.Listing{ofBoth(listed(mcp.Modern, "x:1"), listed(mcp.Legacy, "x:3")), ofBoth(listed(mcp.Modern, "x:2"), listed(mcp.Legacy, "x:4"))},
			ofBoth(listed(mcp.Modern, "x:2"), listed(mcp.Legacy, "x:4")), mcp.Modern, 2, "x:2", "x:4", "2025-11-25",
		},
	} {
		got := unionOf(tt.all, tt.before)
		own, other := strings.Join(definitions(got), " "), strings.Join(definitions(got.Other), " ")
		if got.Era != tt.era || got.Eras != tt.eras || own != tt.own || other != tt.other {
			t.Errorf("%s: %s of %d eras: %q and %q", tt.name, got.Era, got.Eras, own, other)
		}
		if got.Other != nil && string(got.Other.Version) != tt.otherThan {
			t.Errorf("%s: the other one is of %s", tt.name, got.Other.Version)
		}
		if !sameUnion(got, unionOf(tt.all, got)) {
			t.Errorf("%s: it is another one the next time", tt.name)
		}
	}
}

// A caller also has the list of the era that its first connection does not speak, and
// changes of it are noticed.
func TestServersListBothEras(t *testing.T) {
	t.Parallel()
	known := ofBoth(listed(mcp.Modern, "echo"), listed(mcp.Legacy, "echo", "old"))
	f := NewServerPool(Spec{Key: "s", URL: "http://127.0.0.1:1/mcp"}, ServerPoolOptions{
		Options: Options{Sink: deafSink{}, Credential: Static{}, Logger: slog.New(slog.DiscardHandler)},
		Known:   func(context.Context, string) *mcp.Listing { return known }, Relisted: func() {},
	})
	ctx, cancel := context.WithCancel(context.Background())
	f.life = ctx
	defer f.running.Wait()
	defer cancel()
	if !f.Lists("ann", mcp.Tool, "old") || !f.Listed("ann", mcp.Tool, "old") || f.Lists("ann", mcp.Tool, "older") {
		t.Error("what it is listed is not what is known")
	}
	testwait.Until(t, patience, "the union", func() bool {
		l, _ := f.Listing()
		return l.Eras == 2 && slices.Equal(definitions(l.In(mcp.Legacy)), []string{"echo", "old"})
	})
	before := f.Version("ann")
	m := f.server("ann")
	m.catalog.mu.Lock()
	next := *m.catalog.listing
	next.Other = listed(mcp.Legacy, "echo", "older")
	m.catalog.listing = &next
	m.catalog.mu.Unlock()
	f.changed("ann")
	if f.Version("ann") == before || !f.Lists("ann", mcp.Tool, "older") {
		t.Error("a change of the other era is none")
	}
}
