package queue

import (
	"context"
	"errors"
	"time"
)

// Job is a call on its way to a worker. Only Body is secret: it is sealed (see [Box]).
type Job struct {
	ID        string // unique; a second job with it is the same job
	Queue     string
	Principal string // a hash of the caller, by which the queue is fair
	Priority  int    // 0 to [MaxPriority]; higher is leased first
	Repeats   bool   // it may run again after its worker was lost
	Deadline  time.Time
	Key       string // the id of the key that Body is sealed to
	Body      []byte
}

// MaxPriority is the priority of a call whose caller waits; that of a task is zero.
const MaxPriority = 1

// State is how a job has ended.
type State string

// The states of a job that has ended.
const (
	Done      State = "done"
	Cancelled State = "cancelled"
	Lost      State = "lost"    // its worker was lost, and it must not be repeated
	Dead      State = "dead"    // its workers were lost each time, or it cannot be run
	Expired   State = "expired" // at its deadline
)

// End is how a job has ended.
type End struct {
	State    State
	Body     []byte // the sealed answer, if State is [Done]
	Attempts int    // how often it was delivered
	Reason   string // of a dead letter, without secrets
}

// Errors of engines.
var (
	ErrFull    = errors.New("the queue is full")
	ErrYours   = errors.New("the caller has too many jobs in the queue")
	ErrUnknown = errors.New("there is no such job")
	ErrEnded   = errors.New("the job has ended, or its lease has")
	ErrNoQueue = errors.New("no gateway has declared this queue")
	ErrTooBig  = errors.New("the message is larger than the engine carries")
)

// Bounds are the limits of an engine for each of its queues.
type Bounds struct {
	Waiting             int           // jobs that wait
	WaitingPerPrincipal int           // of them, of one caller
	Keep                time.Duration // of results and dead letters
	Lease               time.Duration // without a heartbeat
	Attempts            int           // of a job that may run again
}

// LostEachTime is the reason of a dead letter whose workers were all lost.
const LostEachTime = "its worker was lost each time"

// Reasons of dead letters that workers give. What is not among them is not shown to callers,
// because an engine and the workers of other queues can write reasons as well.
const (
	notOurs  = "it was changed on its way, or was not made by a gateway"
	otherKey = "it is sealed to another key than that of its queue"
	tooLate  = "it was delivered after its time"
	twice    = "it was delivered again, and must not be"
)

// WorkerLost returns how a job ends that was delivered for the attempt-th time and whose
// worker was lost; again is true if it is delivered once more instead.
func (b *Bounds) WorkerLost(j *Job, attempt int) (end End, again bool) {
	switch {
	case !j.Repeats:
		return End{State: Lost, Attempts: attempt}, false
	case attempt >= b.Attempts:
		return End{State: Dead, Attempts: attempt, Reason: LostEachTime}, false
	}
	return End{}, true
}

// DefaultLease and DefaultAttempts are those of gateways and workers.
const (
	DefaultLease    = 15 * time.Second
	DefaultAttempts = 3
)

// Traits are what an engine cannot do.
type Traits struct {
	NoPriority bool
	NoFairness bool
	NoCancel   bool // neither before nor after the start
	NoBounds   bool
	NoDead     bool // it has no list of dead letters
	// Requeued means that jobs are repeated by the gateway that waits for them.
	Requeued bool
	// MaxBody is how large a message may be; 0 is no limit of the engine's.
	MaxBody int
}

// Producer is what a gateway needs of an engine.
type Producer interface {
	// Enqueue adds a job. It is safe to repeat. If the error is none of this package,
	// the job may have been added.
	Enqueue(ctx context.Context, j *Job) error
	// Await waits for the end of a job, across reconnections. progress gets what the
	// worker reports, from one goroutine at a time; reports may be lost.
	Await(ctx context.Context, j *Job, progress func(body []byte)) (End, error)
	// Cancel ends a job that waits, or also one that was leased. It reports whether
	// the job has ended by it. A job that is not there cannot be added afterwards.
	Cancel(ctx context.Context, j *Job, leased bool) (ended bool, err error)
}

// Consumer is what a worker needs of an engine.
type Consumer interface {
	// Key returns the id of the key of a queue, or [ErrNoQueue].
	Key(ctx context.Context, queue string) (string, error)
	// Lease waits for jobs and leases at most max. A lease is a delivery.
	Lease(ctx context.Context, queue, worker string, max int) ([]Lease, error)
}

// Lease is a job that one worker may run.
type Lease interface {
	Job() *Job
	Attempt() int // 1 for the first delivery
	// Ended is closed when the job has ended elsewhere, as soon as the engine knows.
	Ended() <-chan struct{}
	// Beat extends the lease. It returns [ErrEnded] if there is nothing to extend.
	Beat(ctx context.Context) error
	// Progress passes a report on to the gateway that waits. It may be lost.
	Progress(ctx context.Context, body []byte) error
	// Finish ends the job as [Done] or [Dead], or returns [ErrEnded].
	Finish(ctx context.Context, e End) error
	// Return gives the job back as if it had not been delivered. It has not begun.
	Return(ctx context.Context) error
}

// Letter is a dead letter.
type Letter struct {
	ID, Reason string
	Attempts   int
	At         time.Time
}

// Engine carries jobs from gateways to workers. It is safe for concurrent use.
type Engine interface {
	Producer
	Consumer
	Traits() Traits
	// Declare makes a queue known, with the id of its key.
	Declare(ctx context.Context, queue, key string) error
	// Letters returns the newest dead letters of a queue, at most 1000.
	Letters(ctx context.Context, queue string) ([]Letter, error)
	Close() error
}
