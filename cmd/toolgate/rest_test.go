package main

import "testing"

func TestWorthCollecting(t *testing.T) {
	const mb = 1 << 20
	floor := uint64(len(heapFloor))
	for _, tt := range []struct {
		name string
		now  memory
		want bool
	}{
		{"clean", memory{100 * mb, 5*mb + mb/2, 5 * mb}, false},
		{"with garbage", memory{100 * mb, 10 * mb, 5 * mb}, true},
		{"large", memory{900 * mb, 105 * mb, 100 * mb}, false},
		{"large, with much garbage", memory{900 * mb, 150 * mb, 100 * mb}, true},
		{"less than at the last collection", memory{9 * mb, 4 * mb, 5 * mb}, false},
	} {
		tt.now.held += floor
		tt.now.live += floor
		if got := worthCollecting(tt.now); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
