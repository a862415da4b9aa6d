package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// maxWaiting is how many spans wait to be sent, maxBatch how many are sent at
	// once, and batchPause how long the first of them waits at most.
	maxWaiting = 4096
	maxBatch   = 512
	batchPause = 5 * time.Second
	// exportTime bounds the sending of a batch, with its repetitions, and
	// lastTime what is sent at the end.
	exportTime = 10 * time.Second
	lastTime   = 5 * time.Second
)

// outbox takes spans that have ended and sends them in batches. It blocks nobody:
// what does not fit is dropped and counted. It implements
// [sdktrace.SpanProcessor].
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

// ForceFlush implements [sdktrace.SpanProcessor]; run does what it would.
func (*outbox) ForceFlush(context.Context) error { return nil }

// Shutdown implements [sdktrace.SpanProcessor].
func (o *outbox) Shutdown(ctx context.Context) error { return o.to.Shutdown(ctx) }

// run sends until the context ends, and then what is left.
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

// more fills a batch with what waits.
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

// send sends a batch. Only the first failure of several in a row is logged, and
// that it is over.
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

// tracesURL is where traces go.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("the collector's address %q is no URL; write one such as http://127.0.0.1:4318", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}
