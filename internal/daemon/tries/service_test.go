package tries

import (
	"strconv"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
)

// Where there are too many calls, the oldest one goes, and no other.
func TestOldestGoes(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	for i := range maxCalls + 3 {
		n := strconv.Itoa(i)
		c := newCall(owner{n, n}, n, &admin.NewTry{Tool: "t"}, func(error) {})
		c.t.State, c.t.Ended = admin.TryOver, time.Now()
		if err := s.add(c); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.calls) != maxCalls || s.calls[0].t.ID != "3" {
		t.Errorf("%d calls are kept, from %s", len(s.calls), s.calls[0].t.ID)
	}
}
