package rate

import (
	"context"
	"crypto/sha256"
	"time"
)

const (
	// RowPause is the pause between two identical calls that ends their row: polling now
	// and then is no loop.
	RowPause = 10 * time.Second
	// RowHold is how long a row that was too long is refused, unless another call ends it.
	RowHold = time.Minute
	// RowLease is how long a call counts as running at other gateways when its own gateway
	// does not say that it has ended.
	RowLease = time.Minute
)

// RowCall is a call that may be one of a row of identical calls.
type RowCall struct {
	Caller string
	Call   [sha256.Size]byte // what is compared: a hash of the server, the tool and the arguments
}

// Rows keep the rows of identical calls of several gateways. A call counts that begins
// while none of its row runs at any of them. They are safe for concurrent use and bound
// their own waits. An error means that the store could not answer; the call may have been
// counted.
type Rows interface {
	// Begin counts a call, unless one of its row runs at another gateway, and returns how
	// many there are in the row. A count of -1 refuses it, for wait. A gateway must not
	// begin a call while it runs an identical one of the same caller. Unless it refuses the
	// call, Begin also takes what the call needs from the shared rates, in the same exchange;
	// with may be nil.
	Begin(ctx context.Context, c RowCall, most int, with *Taking) (count int, wait time.Duration, err error)
	// Look is Begin without counting.
	Look(ctx context.Context, c RowCall, most int) (count int, wait time.Duration, err error)
	// End says that no call of the row runs at this gateway any more.
	End(ctx context.Context, c RowCall) error
}
