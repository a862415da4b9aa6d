package cli

import "github.com/toolgate/toolgate/cmd/toolgate/output"

// mostListed bounds the rows that a command reads page by page.
const mostListed = 10_000

// allPages reads page after page of a list, at most [mostListed] items, and notes where there are
// more. next returns the page of limit items behind an item; nil is the first page.
func allPages[T any](limit int, what string, next func(last *T) ([]T, error)) ([]T, error) {
	var all []T
	var last *T
	for {
		page, err := next(last)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < limit {
			return all, nil
		}
		if len(all) >= mostListed {
			output.Note("only %d %s are listed, and there may be more", len(all), what)
			return all, nil
		}
		last = &all[len(all)-1]
	}
}
