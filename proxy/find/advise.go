package find

import (
	"context"
	"iter"
	"math"
	"math/bits"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Adviser knows more of items than their words tell, such as what callers chose before.
// It is safe for concurrent use.
type Adviser interface {
	// Advise returns what is added to the scores of the visible items of a view (see
	// [Query.Boost]), or nil for nothing. It returns when ctx ends, and bounds its own
	// waits. What it returns, and whether it does, must not depend on what the view hides,
	// and must not hold data of other tenants.
	Advise(ctx context.Context, who Caller, query string, v *View) func(item int) float64
}

// Caller is who searches.
type Caller struct {
	Tenant    string
	Principal string // with the tenant and the issuer, so that no two have the same
}

type asideKey struct{}

// Aside returns a context for a ranking that nobody is shown. Advisers use what they have
// at hand for it: they ask nobody, and change nothing that other rankings use.
func Aside(ctx context.Context) context.Context { return context.WithValue(ctx, asideKey{}, true) }

// IsAside reports whether a context is one of [Aside].
func IsAside(ctx context.Context) bool { return ctx.Value(asideKey{}) != nil }

// Advise asks all advisers and returns the sum of what they say; nil if none of them says
// anything.
func Advise(ctx context.Context, all []Adviser, who Caller, query string, v *View) func(item int) float64 {
	var sum func(item int) float64
	for _, a := range all {
		said := a.Advise(ctx, who, query, v)
		switch before := sum; {
		case said == nil:
		case before == nil:
			sum = said
		default:
			sum = func(item int) float64 { return both(before(item), said(item)) }
		}
	}
	return sum
}

// both adds up what two advisers say of an item. NaN is nothing.
func both(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return a + b
}

// Visible yields the visible items in ascending order.
func (v *View) Visible() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, set := range v.visible {
			for ; set != 0; set &= set - 1 {
				if !yield(w*64 + bits.TrailingZeros64(set)) {
					return
				}
			}
		}
	}
}

// Index returns the index of all items. It holds items that the view hides, so it is only
// good for what is kept for each index.
func (v *View) Index() *Index { return v.x }

// Len is the number of items.
func (x *Index) Len() int { return len(x.facts) }

// Items yields the items with functions that read them again, each once. The index does
// not hold their texts.
func (x *Index) Items() iter.Seq2[int, func() Item] { return x.source }

// Known returns what the index holds of an item: all but its texts.
func (x *Index) Known(item int) Item {
	return Item{Kind: x.Kind(item), Name: x.names[item], Server: x.Server(item), Hash: x.hashes[item], ReadOnly: x.facts[item].readOnly}
}

// Hash returns the hash of an item (see [Item]).
func (x *Index) Hash(item int) string { return x.hashes[item] }

// Name returns the name that clients use for an item.
func (x *Index) Name(item int) string { return x.names[item] }

// Kind returns what an item is.
func (x *Index) Kind(item int) mcp.Kind { return x.facts[item].kind }

// Server returns the name of the server of an item.
func (x *Index) Server(item int) string { return x.servers[x.facts[item].server].name }
