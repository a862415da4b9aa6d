package feedback_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/feedback"
)

// silent is a receiver that never answers.
type silent struct{}

func (silent) Send(ctx context.Context, _ string, _ []feedback.Event) error {
	<-ctx.Done()
	return ctx.Err()
}
func (silent) Close() {}

// A receiver that does not answer holds the end up for five seconds, not for as long
// as an attempt may take, and all that is left is counted.
func TestEndWhileTheReceiverIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := feedback.NewFeed("test", silent{}, nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		for range 1200 {
			f.Tell(&feedback.Event{})
		}
		time.Sleep(2 * time.Second) // an attempt is under way
		stop()
		began := time.Now()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it ended after %v", took)
		}
		if got := f.Stats(); got != (feedback.Stats{Dropped: 1200}) {
			t.Errorf("%+v", got)
		}
	})
}
