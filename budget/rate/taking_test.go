package rate_test

import (
	"errors"
	"testing"

	"github.com/toolgate/toolgate/budget/rate"
)

// A call without a limiter is refused, and one without rates is not.
func TestTakingZero(t *testing.T) {
	t.Parallel()
	var zero rate.Taking
	var none *rate.Taking
	zero.Cancel()
	none.Cancel()
	if err := zero.End(t.Context()); !errors.Is(err, rate.ErrNoLimiter) {
		t.Errorf("the zero value: %v", err)
	}
	if err := none.End(t.Context()); err != nil {
		t.Errorf("none: %v", err)
	}
}
