package daemon

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/internal/cluster"
	"github.com/toolgate/toolgate/internal/descent"
)

// Run starts the parts, applies the configuration and calls serve. It ends everything when
// serve returns, or when the context has ended and the calls under way have too (see
// drain).
func (d *Daemon) Run(ctx context.Context, serve func(context.Context) error) error {
	defer d.Close()
	parts, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	// What others still need while they end runs on until they have.
	last, stopLast := context.WithCancel(context.WithoutCancel(parts))
	var late errgroup.Group
	late.Go(func() error { return d.store.Run(last) })
	late.Go(func() error { return d.records.Run(last) })

	// The others hear that this gateway has left once its servers have ended: they may start some.
	members, leave := context.WithCancel(context.WithoutCancel(parts))
	defer leave()
	group, gctx := errgroup.WithContext(parts)
	d.ctx = gctx
	d.metrics.WatchCalls(func() int { _, calls := d.gateway.Load(); return calls })
	if err := d.reloads.first(gctx); err != nil {
		stopLast()
		return errors.Join(err, late.Wait())
	}
	for _, run := range []func(context.Context) error{
		d.watchStore,
		d.gateway.Run,
		func(ctx context.Context) error { return d.runCluster(ctx, members) },
		func(ctx context.Context) error { defer leave(); return d.servers.Run(ctx) },
		d.queues.Run,
		d.saveCatalogs,
		d.added.Run,
		d.tools.Run,
		d.registered.Run,
		d.registry.Run,
		d.operation.Run,
		d.signIn.Run,
		d.approvals.webhook.Run,
		d.vectors.Run,
		d.definitions.Run,
		d.budgets.run,
		d.learning.Run,
		descent.SweepAdopted,
		collectWhenIdle,
	} {
		group.Go(func() error { return run(gctx) })
	}
	group.Go(func() error { return d.schedule.Run(ctx, gctx) }) // none is begun while the gateway ends
	group.Go(func() error { return d.agents.Run(ctx, gctx) })
	group.Go(func() error { return d.replays.Run(ctx, gctx) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			d.drain(gctx)
			end()
		case <-gctx.Done():
		}
		return nil
	})
	group.Go(func() error {
		serving, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		defer context.AfterFunc(gctx, func() { stop(context.Cause(gctx)) })()
		err := serve(serving)
		if ctx.Err() == nil { // its clients have left, and nobody asked for the end
			end()
		}
		return err
	})
	err := group.Wait()
	d.tasks.Wait()
	stopLast()
	return errors.Join(err, late.Wait())
}

// Close closes what New has opened. Run does so by itself; twice does no harm.
func (d *Daemon) Close() {
	if d.unguard != nil {
		d.unguard()
	}
	if d.identities != nil {
		d.identities.InForce().Close()
	}
	d.rates.Close()
	if d.records != nil {
		d.records.Close()
	}
	if d.store != nil {
		if err := d.store.Close(); err != nil {
			d.log.Error("close the store", "err", err)
		}
	}
	if d.claim != nil {
		d.claim.Close()
	}
}

// watchStore tells the parts what has changed in the store, by whichever gateway that
// shares it.
func (d *Daemon) watchStore(ctx context.Context) error {
	return d.store.Watch(ctx, func(topic string, _ int64) {
		for _, tell := range d.onStore[topic] {
			tell()
		}
		if server, ok := strings.CutPrefix(topic, cluster.TopicBreaker); ok {
			d.servers.BreakerElsewhere(server)
		}
	})
}

func (d *Daemon) saveCatalogs(ctx context.Context) error {
	return d.catalogs.Run(ctx, d.servers.Listed)
}

// DrainTime is how long calls may finish when the gateway ends.
func (d *Daemon) DrainTime() time.Duration { return d.Current().Toolgate.Limits.Drain }

// heardTime is how long a gateway that drains stays for at least, so that the others have heard
// of it before its connections close.
const heardTime = time.Second

// drain accepts no more calls and waits for those under way, as long as the
// configuration says or until a second signal ends the wait. The servers run on
// meanwhile, and the store and the audit log beyond that.
func (d *Daemon) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.DrainTime())
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if d.cluster != nil {
		d.cluster.Drain()
		heard := time.NewTimer(heardTime)
		defer heard.Stop()
		defer func() { // what comes meanwhile is passed on, or declined
			select {
			case <-heard.C:
			case <-ctx.Done():
			}
		}()
	}
	if n := d.gateway.Drain(ctx); n > 0 {
		d.log.Warn("the gateway ends before some calls have", "calls", n)
	}
	if n := d.servers.DrainTasks(ctx); n > 0 {
		d.log.Warn("the gateway ends before some tasks have", "tasks", n)
	}
	if d.places != nil && len(d.cluster.Members()) > 1 {
		if n := d.places.Drain(ctx); n > 0 {
			d.log.Warn("the gateway ends before others have left its servers", "links", n)
		}
	}
}
