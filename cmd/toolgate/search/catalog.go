// Package search is what `toolgate find` needs besides a gateway: a search over the
// catalog of a file, and the evaluation of a search with cases whose answers are known.
package search

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/retrieval"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// Ranks is how many ranks an evaluation looks at.
const Ranks = retrieval.Depth

// Found is a tool that a search found.
type Found struct {
	Name string // as clients see it
	Key  string // SERVER/NAME
}

// Catalog is a catalog of a file, which no gateway serves. Nothing in it is hidden. It is
// immutable.
type Catalog struct {
	items []find.Item
	keys  []string // by item
	known map[string]bool
	view  *find.View
}

// ReadCatalog reads a file with a tool on each line; see [retrieval.ReadCatalog].
func ReadCatalog(path string) (*Catalog, error) {
	tools, err := retrieval.ReadCatalog(path)
	if err != nil {
		return nil, err
	}
	return NewCatalog(tools), nil
}

// NewCatalog returns a catalog of tools.
func NewCatalog(tools []retrieval.Tool) *Catalog {
	c := &Catalog{known: make(map[string]bool, 2*len(tools))}
	for i := range tools {
		t := &tools[i]
		item := find.Item{
			Kind: mcp.Tool, Server: t.Server, Name: t.Server + "__" + t.Name, Title: t.Title, Description: t.Description,
			Schema: t.InputSchema, ReadOnly: t.Annotations != nil && t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly,
		}
		c.items, c.keys = append(c.items, item), append(c.keys, t.Key())
		c.known[item.Name], c.known[t.Key()] = true, true
	}
	c.view = find.Build(c.items, nil, nil).View(func(int) bool { return true })
	return c
}

// Has reports whether the catalog has a tool of a name, in either spelling.
func (c *Catalog) Has(name string) bool { return c.known[name] }

// Search returns the first [Ranks] tools for a query, and about how many tokens an answer
// of the find view has by default.
func (c *Catalog) Search(query string) (found []Found, tokens int) {
	return c.search(find.Query{Text: query, Limit: Ranks})
}

func (c *Catalog) search(q find.Query) (found []Found, tokens int) {
	r := c.view.Search(q)
	shown := findview.Answer{More: r.More + max(0, len(r.Hits)-findview.DefaultLimit)}
	for rank, h := range r.Hits {
		it := &c.items[h.Item]
		found = append(found, Found{Name: it.Name, Key: c.keys[h.Item]})
		if rank < findview.DefaultLimit {
			shown.Found = append(shown.Found, findview.Found{Name: it.Name, Server: it.Server, Kind: it.Kind, Definition: definition(it)})
		}
	}
	text, _ := shown.Render(findview.Fitting, findview.DefaultTokens)
	return found, schemas.Tokens(len(text))
}

// definition returns an item as clients see it listed.
func definition(it *find.Item) []byte {
	d := mcp.AppendQuote([]byte(`{"name":`), it.Name)
	if it.Title != "" {
		d = mcp.AppendQuote(append(d, `,"title":`...), it.Title)
	}
	d = mcp.AppendQuote(append(d, `,"description":`...), it.Description)
	if len(it.Schema) > 0 {
		d = append(append(d, `,"inputSchema":`...), it.Schema...)
	}
	return fmt.Appendf(d, `,"annotations":{"readOnlyHint":%t}}`, it.ReadOnly)
}
