package records

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
)

// One goes at a time. Others wait for as long as it takes, some of them, and until they leave.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ts := newTurns()
		end, err := ts.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var going, came, busy, left atomic.Int32
		begin := func(ctx context.Context) {
			done, err := ts.take(ctx)
			switch {
			case errors.Is(err, admin.ErrAuditBusy):
				busy.Add(1)
			case errors.Is(err, context.Canceled):
				left.Add(1)
			case err != nil:
				t.Error(err)
			default:
				if going.Add(1) != 1 {
					t.Error("two go at a time")
				}
				time.Sleep(time.Second)
				going.Add(-1)
				came.Add(1)
				done()
			}
		}
		leaving, leave := context.WithCancel(t.Context())
		go begin(leaving)
		synctest.Wait()
		leave()
		synctest.Wait()
		for range maxWaiting + 3 {
			go begin(t.Context())
		}
		synctest.Wait()
		if busy.Load() != 3 || left.Load() != 1 {
			t.Errorf("%d are told that it is busy, and %d have left", busy.Load(), left.Load())
		}
		end()
		time.Sleep(maxWaiting * time.Second)
		synctest.Wait()
		if came.Load() != maxWaiting {
			t.Errorf("%d of %d had their turn", came.Load(), maxWaiting)
		}
		end, err = ts.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if _, err := ts.take(t.Context()); !errors.Is(err, admin.ErrAuditBusy) || time.Since(before) != turnTime {
			t.Errorf("%v after %s", err, time.Since(before))
		}
		end()
	})
}
