package limit

import (
	"errors"
	"testing"

	"github.com/toolgate/toolgate/proxy/refusal"
)

// With a throttle, no more calls wait than may run.
func TestThrottledStartup(t *testing.T) {
	s := NewConcurrency(2, 6, nil)
	s.Throttle(Throttle{NoQueue: true})
	for _, who := range []string{"alice", "bob"} {
		if _, err := s.Await(who); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
	_, err := s.Await("carol")
	if r, refused := errors.AsType[*refusal.Error](err); !refused || r.Kind != "upstream_busy" {
		t.Errorf("one more is answered %v", err)
	}
}
