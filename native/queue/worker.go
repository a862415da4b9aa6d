package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Worker runs the jobs of queues.
type Worker struct {
	Name     string
	Engine   Consumer
	Boxes    []*Box // of its queues
	Capacity int    // jobs that run at once, of each queue
	Lease    time.Duration
	Drain    time.Duration // how long jobs may go on when it is to end
	Log      *slog.Logger
	// Run runs a call. notify passes notifications on to the caller.
	Run func(ctx context.Context, w *Work, notify func(method string, params []byte)) (mcp.Answer, error)
}

var errDrained = errors.New("the worker ends")

const (
	// lookEvery is how often a worker looks for a queue that is not there.
	lookEvery = 2 * time.Second
	// reportsWaiting bounds the reports of one job that wait to be sent.
	reportsWaiting = 64
	// reportTime is how long the end of a job waits for its reports.
	reportTime = 2 * time.Second
)

// Serve runs jobs until ctx ends, and then lets those that run finish. It waits for a queue
// that is not there. A key that is not the queue's is an error.
func (w *Worker) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	running, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	var jobs, queues sync.WaitGroup
	for _, box := range w.Boxes {
		queues.Go(func() {
			if err := w.serve(ctx, running, box, &jobs); err != nil {
				stop(err)
			}
		})
	}
	queues.Wait()
	w.Log.Info("the worker takes no more jobs", "worker", w.Name, "drain", w.Drain)
	ended := make(chan struct{})
	go func() { jobs.Wait(); close(ended) }() // ends with the last job, which is cut below
	late := time.NewTimer(w.Drain)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		cut(errDrained)
		<-ended
	}
	if wrong, ok := errors.AsType[*KeyError](context.Cause(ctx)); ok {
		return wrong
	}
	return nil
}

// KeyError is why a worker is not let in.
type KeyError struct{ Queue string }

// Error implements error.
func (e *KeyError) Error() string {
	return fmt.Sprintf("the key of the queue %s is not the one of the gateways: give the worker the same key (toolgate.queue.queues.%[1]s.key)", e.Queue)
}

// serve runs the jobs of one queue until ctx ends.
func (w *Worker) serve(ctx, running context.Context, box *Box, jobs *sync.WaitGroup) error {
	if err := w.find(ctx, box); err != nil {
		return err
	}
	free := make(chan struct{}, w.Capacity)
	for range w.Capacity {
		free <- struct{}{}
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-free:
		}
		slots := 1 + takeAll(free)
		leases, err := w.Engine.Lease(ctx, box.queue, w.Name, slots)
		for range slots - len(leases) {
			free <- struct{}{}
		}
		begin := func(do func(context.Context, *Box, Lease), l Lease) {
			jobs.Go(func() {
				defer func() { free <- struct{}{} }()
				do(running, box, l)
			})
		}
		do, strays := w.run, leases[:0:0]
		if ctx.Err() != nil {
			do = w.giveBack
		}
		for _, l := range leases {
			if l.Job().Key == box.id {
				begin(do, l)
			} else {
				strays = append(strays, l)
			}
		}
		if len(strays) > 0 {
			wrong := w.refused(running, box)
			for _, l := range strays {
				if wrong {
					begin(w.giveBack, l)
				} else {
					begin(w.bury, l)
				}
			}
			if wrong {
				return &KeyError{box.queue}
			}
		}
		if err != nil && ctx.Err() == nil {
			w.Log.Warn("jobs cannot be leased", "queue", box.queue, "err", err)
			_ = backoff.Sleep(ctx, time.Second) // the loop ends with the context
		}
	}
	return nil
}

func takeAll(free chan struct{}) (n int) {
	for {
		select {
		case <-free:
			n++
		default:
			return n
		}
	}
}

// find waits until the queue is there, and compares the keys.
func (w *Worker) find(ctx context.Context, box *Box) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for told := false; ; told = true {
		key, err := w.Engine.Key(ctx, box.queue)
		switch {
		case err == nil && key != box.id:
			return &KeyError{box.queue}
		case err == nil:
			w.Log.Info("the worker waits for jobs", "queue", box.queue, "worker", w.Name, "capacity", w.Capacity)
			return nil
		case !told && ctx.Err() == nil:
			w.Log.Warn("the worker waits for its queue", "queue", box.queue, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// refused reports whether the key of the queue is not that of this worker any more.
func (w *Worker) refused(ctx context.Context, box *Box) bool {
	ctx, cancel := context.WithTimeout(ctx, w.Lease/2)
	defer cancel()
	key, err := w.Engine.Key(ctx, box.queue)
	return err != nil || key != box.id
}

// bury ends a job with another key than that of its queue. No worker can open it, and it
// would come first each time.
func (w *Worker) bury(ctx context.Context, _ *Box, l Lease) {
	log := w.Log.With("queue", l.Job().Queue, "job", l.Job().ID)
	log.Error("a job has another key than its queue")
	w.finish(ctx, l, End{State: Dead, Reason: otherKey}, nil, log)
}

func (w *Worker) giveBack(ctx context.Context, _ *Box, l Lease) {
	ctx, cancel := context.WithTimeout(ctx, w.Lease)
	defer cancel()
	if err := l.Return(ctx); err != nil {
		w.Log.Warn("a job cannot be given back", "queue", l.Job().Queue, "job", l.Job().ID, "err", err)
	}
}

// run runs one job and ends it.
func (w *Worker) run(ctx context.Context, box *Box, l Lease) {
	j := l.Job()
	log := w.Log.With("queue", j.Queue, "job", j.ID, "attempt", l.Attempt())
	work, err := box.open(j)
	var sealed *envelope
	if err == nil {
		sealed, err = newEnvelope(j.ID, work.Answer)
	}
	if err != nil {
		log.Error("a job cannot be opened", "err", err)
		w.finish(ctx, l, End{State: Dead, Reason: notOurs}, nil, log)
		return
	}
	if why := work.refusal(l.Attempt()); why != "" {
		log.Error("a job must not run", "reason", why, "expires", work.Expires)
		w.finish(ctx, l, End{State: Dead, Reason: why}, nil, log)
		return
	}
	// Not at j.Deadline, which is by another clock: the engine ends the job then.
	ctx, stop := context.WithTimeoutCause(ctx, cmp.Or(max(work.Hard, 0), longest), context.DeadlineExceeded)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var beside sync.WaitGroup
	ended := make(chan struct{})
	beside.Go(func() { w.beat(ctx, l, ended, cancel) })
	reports, over, reported := make(chan []byte, reportsWaiting), make(chan struct{}), make(chan struct{})
	beside.Go(func() {
		defer close(reported)
		w.report(ctx, l, reports, over)
	})
	began := time.Now()
	got, err := w.call(ctx, work, log, func(method string, params []byte) {
		if body, err := sealed.sealReport(method, params); err == nil {
			select {
			case reports <- body:
			default: // the queue is slower than the tool
			}
		}
	})
	if err != nil && ctx.Err() != nil {
		err = &mcp.Failure{Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Delivered: true, Reason: "The call was ended: " + context.Cause(ctx).Error() + ". Whether the tool has done its work is not known."}
	}
	close(over)
	log.Info("a job has run", "server", work.Server, "tool", work.Tool, "took", time.Since(began), "err", err)
	late := time.NewTimer(reportTime)
	defer late.Stop()
	select {
	case <-reported: // before the end
	case <-late.C:
	}
	body, wrong := sealed.sealAnswer(got, err)
	small, wrong2 := sealed.sealAnswer(mcp.Answer{}, errTooLarge)
	if wrong = errors.Join(wrong, wrong2); wrong != nil {
		log.Error("an answer cannot be sealed", "err", wrong)
	} else {
		w.finish(context.WithoutCancel(ctx), l, End{State: Done, Body: body}, small, log)
	}
	close(ended)
	cancel(nil) // of reports that the queue does not take
	beside.Wait()
}

// errTooLarge stands for an answer that is larger than the engine carries.
var errTooLarge = &mcp.Failure{
	Kind: mcp.FailTooLarge, Origin: mcp.OriginHop, Delivered: true, Reason: "The tool has run, but its answer is larger than the queue carries.",
}

// call runs a tool. One that panics fails, and does not take the other jobs of the worker
// with it.
func (w *Worker) call(ctx context.Context, work *Work, log *slog.Logger, notify func(string, []byte)) (_ mcp.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a tool panicked", "server", work.Server, "tool", work.Tool, "panic", p, "stack", string(debug.Stack()))
			err = &mcp.Failure{
				Kind: mcp.FailUnavailable, Origin: mcp.OriginServer, Delivered: true,
				Reason: "The tool failed at the worker; its log has the details. Whether the tool has done its work is not known.",
			}
		}
	}()
	return w.Run(ctx, work, notify)
}

// beat keeps the lease, and cancels the job when that has ended elsewhere.
func (w *Worker) beat(ctx context.Context, l Lease, ended <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(w.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-l.Ended():
			cancel(errCancelled)
			return
		case <-tick.C:
		}
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), w.Lease/4) // there is time for another
		err := l.Beat(bounded)
		stop()
		if errors.Is(err, ErrEnded) {
			cancel(errCancelled)
			return
		}
	}
}

// report sends reports in their order until over is closed and there are no more, or ctx
// ends.
func (w *Worker) report(ctx context.Context, l Lease, reports <-chan []byte, over <-chan struct{}) {
	for {
		var body []byte
		select {
		case <-ctx.Done():
			return
		case body = <-reports:
		case <-over:
			if len(reports) == 0 {
				return
			}
			body = <-reports
		}
		if err := l.Progress(ctx, body); err != nil {
			w.Log.Debug("a report is lost", "job", l.Job().ID, "err", err)
		}
	}
}

// finish ends a job, again and again while its lease may be valid. small is an answer in
// place of one that is too large.
func (w *Worker) finish(ctx context.Context, l Lease, e End, small []byte, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, 2*w.Lease)
	defer cancel()
	tick := time.NewTicker(max(w.Lease/20, time.Millisecond))
	defer tick.Stop()
	for {
		err := l.Finish(ctx, e)
		switch {
		case err == nil:
			return
		case errors.Is(err, ErrEnded):
			log.Info("the end of a job came too late")
			return
		case errors.Is(err, ErrTooBig) && small != nil:
			e.Body, small = small, nil
			continue
		}
		select {
		case <-ctx.Done():
			log.Error("a job cannot be ended", "err", err)
			return
		case <-tick.C:
		}
	}
}
