package proxy

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
)

// This file names what a server offers: each under one name, and no two that
// differ by case alone.

// claim is an item of a server on its way to a name.
type claim struct {
	original string
	plain    string // see [gate.Names]
	renamed  bool   // by the operator
	changed  bool   // plain is not what it is called, because clients could not take that
}

// before orders claims to one name: the operator's word first, then what would
// have no other name, then by the name at the server.
func (c *claim) before(other *claim) bool {
	switch {
	case c.renamed != other.renamed:
		return c.renamed
	case c.changed != other.changed:
		return c.changed
	}
	return c.original < other.original
}

// names returns the names of what the server offers of a kind, by the names
// there. What has none is not offered: the operator gave its name to another,
// it poses as the changed name of another, or it has one hash with many.
//
// All sets of definitions count: a name must not depend on the set.
func (s *served) names(kind mcp.Capability) map[string]gate.Names {
	named, taken := make(map[string]gate.Names), make(map[string]*claim)
	for _, l := range append([]*mcp.Listing{s.listing}, s.others...) {
		for i := range l.Items[kind] {
			original := l.Items[kind][i].Key
			if kind != mcp.Tool && kind != mcp.Prompt {
				named[original] = gate.Names{Exposed: names.URI(s.mount.Namespace, original)}
				continue
			}
			c := s.claim(kind, original)
			if first := taken[c.plain]; first == nil || c.before(first) {
				taken[c.plain] = &c
			}
		}
	}
	folded := make(map[string]int, len(taken))
	for plain := range taken {
		folded[strings.ToLower(plain)]++
	}
	for plain, c := range taken {
		named[c.original] = gate.Names{Exposed: plain}
		if folded[strings.ToLower(plain)] > 1 && !c.renamed {
			if own := names.Exposed(s.mount.Namespace, s.backend.Name(), c.original, true); own != plain {
				named[c.original] = gate.Names{Exposed: own, Plain: plain}
			}
		}
	}
	s.spread(named)
	return named
}

// mostAlike is how many names of one kind and one hash a server may offer, see
// [Options.NameHash].
const mostAlike = 8

// spread takes out the names of one hash but for a few.
func (s *served) spread(named map[string]gate.Names) {
	if s.hash == nil || len(named) <= mostAlike {
		return
	}
	alike := make(map[int]int)
	for _, original := range slices.Sorted(maps.Keys(named)) {
		hash := s.hash(named[original].Exposed)
		if alike[hash]++; alike[hash] > mostAlike {
			delete(named, original)
		}
	}
}

func (s *served) claim(kind mcp.Capability, original string) claim {
	c := claim{original: original}
	shown := original
	if shape := s.shape(kind, original); shape != nil && shape.Rename != "" {
		shown, c.renamed = shape.Rename, true
	}
	c.plain = names.Exposed(s.mount.Namespace, s.backend.Name(), shown, false)
	c.changed = !strings.HasSuffix(c.plain, shown)
	return c
}

// names are all names of what the route leads to.
func (r *Route) names() gate.Names { return gate.Names{Exposed: r.Exposed, Plain: r.Plain} }

// before orders routes as they are listed.
func before(a, b *Route) int {
	return cmp.Or(cmp.Compare(a.Exposed, b.Exposed), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Original, b.Original))
}
