package search

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/retrieval"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/learn"
)

// Past takes up to n cases of each tool as past searches (see [retrieval.Split]), and
// returns what is learned of these and the other cases. Each case counts as the search of
// another caller.
func (c *Catalog) Past(cases []retrieval.Case, n int) (m *learn.Model, rest []retrieval.Case) {
	past, rest := retrieval.Split(cases, n)
	var pairs []learn.Pair
	for i := range past {
		if p, ok := c.pair(past[i].Query, past[i].AllNeeds()[0][0], fmt.Sprint(i)); ok {
			pairs = append(pairs, p)
		}
	}
	return learn.Train(pairs, 1), rest
}

// Learn returns what is learned of past searches by at least so many callers of a tool,
// and the names of tools that the catalog does not have.
func (c *Catalog) Learn(past []retrieval.Pair, callers int) (m *learn.Model, unknown []string) {
	var pairs []learn.Pair
	for i := range past {
		p, ok := c.pair(past[i].Query, past[i].Tool, past[i].Caller)
		if !ok {
			unknown = append(unknown, past[i].Tool)
			continue
		}
		pairs = append(pairs, p)
	}
	return learn.Train(pairs, callers), unknown
}

// pair is a past search for a tool in either spelling.
func (c *Catalog) pair(query, tool, caller string) (p learn.Pair, ok bool) {
	for i := range c.items {
		if it := &c.items[i]; it.Name == tool || c.keys[i] == tool {
			return learn.Pair{Query: query, Server: it.Server, Tool: it.Name, Caller: caller}, true
		}
	}
	return p, false
}

// Learned is a catalog that is also searched by what was learned.
type Learned struct {
	*Catalog
	Model *learn.Model
}

// Search is [Catalog.Search] with what was learned.
func (l Learned) Search(query string) (found []Found, tokens int) {
	return l.search(find.Query{Text: query, Limit: Ranks, Boost: l.Model.Advise(query, l.view)})
}
