package cli

import (
	"errors"
	"testing"
)

// A list is read to its end, page by page, and not beyond a bound.
func TestAllPages(t *testing.T) {
	t.Parallel()
	const limit = 500
	for rows, want := range map[int]int{0: 0, 1: 1, limit: limit, limit + 1: limit + 1, mostListed + 1: mostListed} {
		got, err := allPages(limit, "rows", func(last *int) ([]int, error) {
			from := 0
			if last != nil {
				from = *last + 1
			}
			var page []int
			for i := from; i < min(rows, from+limit); i++ {
				page = append(page, i)
			}
			return page, nil
		})
		if err != nil || len(got) != want || want > 0 && got[want-1] != want-1 {
			t.Errorf("%d of %d rows, %v", len(got), rows, err)
		}
	}
	down := errors.New("down")
	if _, err := allPages(1, "rows", func(*int) ([]int, error) { return nil, down }); !errors.Is(err, down) {
		t.Error(err)
	}
}
