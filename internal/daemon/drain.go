package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// DrainTime is how long calls may finish when the gateway ends.
func (in *Daemon) DrainTime() time.Duration { return in.Current().Toolgate.Limits.Drain }

// drain lets no call begin any more and waits for those under way, as long as
// the configuration says or until a second signal says that it is enough. The
// servers run on meanwhile, and the store and the audit log beyond that.
func (in *Daemon) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, in.DrainTime())
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if n := in.Gateway.Drain(ctx); n > 0 {
		in.Log.Warn("the gateway ends before some calls have", "calls", n)
	}
	if n := in.queue.Drain(ctx); n > 0 {
		in.Log.Warn("the gateway ends before some tasks have", "tasks", n)
	}
}
