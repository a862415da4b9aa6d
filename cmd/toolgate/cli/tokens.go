package cli

import (
	"fmt"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
)

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
