package limit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
)

// The streaks of many principals take bounded memory, and end.
func TestStreaksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Loops
		s.Apply(5)
		for i := range maxStreaks + 100 {
			end, _ := s.Begin(t.Context(), Call{Principal: fmt.Sprint("p", i), Server: "s", Tool: "a"}, nil)
			end()
		}
		if len(s.streaks) > maxStreaks {
			t.Errorf("%d rows, want at most %d", len(s.streaks), maxStreaks)
		}
		time.Sleep(rate.RowHold)
		s.Sweep(time.Now())
		if len(s.streaks) != 0 {
			t.Errorf("%d rows are left", len(s.streaks))
		}
	})
}
