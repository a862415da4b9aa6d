package main

import "testing"

func TestWorthCollecting(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		name        string
		before, now memory
		want        bool
	}{
		{"at work", memory{100 * mb, 9 * mb, 5 * mb}, memory{101 * mb, 10 * mb, 5 * mb}, false},
		{"at rest, clean", memory{100 * mb, 6 * mb, 5 * mb}, memory{100 * mb, 6 * mb, 5 * mb}, false},
		{"at rest", memory{100 * mb, 10 * mb, 5 * mb}, memory{100*mb + 1000, 10 * mb, 5 * mb}, true},
		{"at rest, large", memory{900 * mb, 105 * mb, 100 * mb}, memory{900 * mb, 105 * mb, 100 * mb}, false},
		{"at rest, large, with much", memory{900 * mb, 150 * mb, 100 * mb}, memory{900 * mb, 150 * mb, 100 * mb}, true},
		{"less than at the collection", memory{9 * mb, 4 * mb, 5 * mb}, memory{9 * mb, 4 * mb, 5 * mb}, false},
	} {
		if got := worthCollecting(tt.before, tt.now); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
