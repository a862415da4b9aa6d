package daemon

import (
	"testing"

	"github.com/toolgate/toolgate/internal/heap"
)

func TestWorthCollecting(t *testing.T) {
	const mb = 1 << 20
	floor := uint64(len(heap.Floor))
	for _, tt := range []struct {
		name string
		now  memory
		want bool
	}{
		{"clean", memory{100 * mb, 5*mb + mb/2, 5 * mb, 0}, false},
		{"with garbage", memory{100 * mb, 10 * mb, 5 * mb, 0}, true},
		{"large", memory{900 * mb, 105 * mb, 100 * mb, 0}, false},
		{"large, with much garbage", memory{900 * mb, 150 * mb, 100 * mb, 0}, true},
		{"less than at the last collection", memory{9 * mb, 4 * mb, 5 * mb, 0}, false},
		{"with much that is free", memory{100 * mb, 5 * mb, 5 * mb, 4 * mb}, true},
		{"large, with little that is free", memory{900 * mb, 100 * mb, 100 * mb, 4 * mb}, false},
	} {
		tt.now.held += floor
		tt.now.live += floor
		if got := worthCollecting(tt.now); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
