package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// maxWaiting bounds the spans that wait, maxBatch those sent at once. batchPause is
	// how long the first of a batch waits at most.
	maxWaiting = 4096
	maxBatch   = 512
	batchPause = 5 * time.Second
	// exportTime bounds the sending of a batch including retries, lastTime the sending
	// at the end.
	exportTime = 10 * time.Second
	lastTime   = 5 * time.Second
)

// outbox sends ended spans in batches. It blocks nobody: what does not fit is dropped
// and counted. It implements [sdktrace.SpanProcessor].
type outbox struct {
	to      sdktrace.SpanExporter
	log     *slog.Logger
	waiting chan sdktrace.ReadOnlySpan
	dropped atomic.Uint64
	failing bool
}

func newOutbox(to sdktrace.SpanExporter, log *slog.Logger) *outbox {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &outbox{to: to, log: log, waiting: make(chan sdktrace.ReadOnlySpan, maxWaiting)}
}

// OnStart implements [sdktrace.SpanProcessor].
func (*outbox) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements [sdktrace.SpanProcessor].
func (o *outbox) OnEnd(s sdktrace.ReadOnlySpan) {
	select {
	case o.waiting <- s:
	default:
		o.dropped.Add(1)
	}
}

// ForceFlush implements [sdktrace.SpanProcessor]; run does the sending.
func (*outbox) ForceFlush(context.Context) error { return nil }

// Shutdown implements [sdktrace.SpanProcessor].
func (o *outbox) Shutdown(ctx context.Context) error { return o.to.Shutdown(ctx) }

// run sends until the context ends, and then the rest.
func (o *outbox) run(ctx context.Context) error {
	batch := make([]sdktrace.ReadOnlySpan, 0, maxBatch)
	due := time.NewTimer(batchPause)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
			defer cancel()
			for late.Err() == nil {
				if batch = o.more(batch); len(batch) == 0 {
					return nil
				}
				o.send(late, batch)
				batch = batch[:0]
			}
			return nil
		case s := <-o.waiting:
			if len(batch) == 0 {
				due.Reset(batchPause)
			}
			if batch = append(batch, s); len(batch) < maxBatch {
				continue
			}
		case <-due.C:
		}
		o.send(ctx, batch)
		batch = batch[:0]
	}
}

// more fills a batch with waiting spans.
func (o *outbox) more(batch []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	for len(batch) < maxBatch {
		select {
		case s := <-o.waiting:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// send sends a batch. Of consecutive failures it logs only the first, and then the
// recovery.
func (o *outbox) send(ctx context.Context, batch []sdktrace.ReadOnlySpan) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	err := o.to.ExportSpans(ctx, batch)
	if err != nil {
		o.dropped.Add(uint64(len(batch)))
	}
	switch {
	case err != nil && !o.failing:
		o.log.Warn("traces do not reach the collector; they are dropped", "err", err)
	case err == nil && o.failing:
		o.log.Info("traces reach the collector again")
	}
	o.failing = err != nil
}
