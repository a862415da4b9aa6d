package main

import (
	"fmt"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/internal/mcp"
)

// bytesPerToken is what one token of the current models' tokenizers covers of
// JSON tool definitions, measured over real servers.
const bytesPerToken = 4.5

// toolTokens approximates how many tokens a model pays for a listed tool: its
// name, description and input schema as they are put into a prompt.
func toolTokens(raw []byte) int {
	size := len(`{"name":,"description":,"input_schema":},`)
	for _, key := range []string{"name", "description", "inputSchema"} {
		size += len(mcp.Lookup(raw, key))
	}
	return int(float64(size)/bytesPerToken + 0.5)
}

func listingTokens(l *mcp.Listing) int {
	if l == nil {
		return 0
	}
	total := 0
	for i := range l.Items[mcp.Tool] {
		total += toolTokens(l.Items[mcp.Tool][i].Raw)
	}
	return total
}

// short renders a count for a table.
func short(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 10_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	default:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
}

// limitWarnings says which clients cannot take a list of tools as it is;
// toolgate's own name in the client's file is taken to be "toolgate".
func limitWarnings(names []string) []string {
	var out []string
	for _, c := range clients.All() {
		l := &c.Limits
		if l.Tools > 0 && len(names) > l.Tools {
			out = append(out, fmt.Sprintf("%s takes at most %d tools; this list has %d", c.Title, l.Tools, len(names)))
		}
		long, example := 0, ""
		for _, n := range names {
			if l.Name > 0 && len(c.Shown(n)) > l.Name {
				long, example = long+1, n
			}
		}
		if long > 0 {
			out = append(out, fmt.Sprintf("%s takes names of %d characters with its prefix; %d are longer, such as %s", c.Title, l.Name, long, example))
		}
	}
	return out
}
