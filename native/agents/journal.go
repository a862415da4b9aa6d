package agents

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Kind is what is done in a step.
type Kind string

// The kinds.
const (
	StepInference Kind = "inference" // the model is asked
	StepCall      Kind = "call"      // a tool is called
	StepFunction  Kind = "function"  // the client runs a function
)

// StepState is what has become of a step.
type StepState string

// The states. All but the first are final.
const (
	Begun   StepState = "begun" // it may have had its effect
	Done    StepState = "done"
	Faulty  StepState = "failed"  // it had no effect, or says that it failed
	Unknown StepState = "unknown" // whether it had its effect is not known
)

// Step is one step of a run.
type Step struct {
	Seq    int // in the run, from 0
	Kind   Kind
	Turn   int    // from 1
	Name   string // of the tool, or of the model
	State  StepState
	CallID string // in the audit log; empty for none
	// Input, Output and Cost are the tokens and cost units of an inference. They are what
	// was reserved until it has ended, and remain so where its usage is not known.
	Input, Output, Cost int64
	BegunAt, EndedAt    time.Time
	// Asked is the [Reservation] of an inference, and the [model.Call] of everything else.
	Asked json.RawMessage
	// Answer is the [model.Turn] of an inference that is done, and the [model.Result] of
	// everything else that has ended.
	Answer json.RawMessage
}

// Journal keeps the steps of one run. It is safe for concurrent use.
type Journal interface {
	// Save saves new steps, and the ends of those that have begun, all or none. What it has
	// saved survives the end of the process. An error other than [ErrCancelled] means that
	// nothing was saved, as far as is known.
	Save(ctx context.Context, steps ...Step) error
}

// ErrCancelled is the cause of the end of a run that somebody has cancelled. A [Journal]
// returns it for what it has saved all the same.
var ErrCancelled = errors.New("the run was cancelled")

// ErrLost is the error of a [Journal] whose run somebody else works on by now. ErrFull is
// that of one that cannot keep more of the run.
var (
	ErrLost = errors.New("somebody else works on the run")
	ErrFull = errors.New("the run is too large")
)

// ErrLeft is the cause of the end of the work on a run that somebody else goes on with:
// the gateway ends.
var ErrLeft = errors.New("the gateway ends; the run goes on later")

// Reservation is what one inference may use, or has used.
type Reservation struct {
	Run    string    `json:"-"`
	Seq    int       `json:"-"` // of the step; with Run the key of the charge
	At     time.Time `json:"-"` // when it was begun
	Tokens int64     `json:"tokens"`
	Input  int64     `json:"input"` // the part of Tokens that the model reads
	Cost   int64     `json:"cost"`
}

// Budget is what inferences are charged to. It is safe for concurrent use.
type Budget interface {
	// Reserve charges what an inference may use at most. A second time for the same key
	// changes nothing. The error is [*Exhausted] where a budget does not have it.
	Reserve(ctx context.Context, r Reservation) error
	// Settle replaces what was reserved by what was used, which can be more. A second time
	// for the same key changes nothing.
	Settle(ctx context.Context, reserved, used Reservation) error
}

// Exhausted is the error of a budget that does not have what an inference may use.
type Exhausted struct {
	// Reason is a sentence for the caller: which budget it is, and when there is more.
	Reason string
}

// Error implements error.
func (e *Exhausted) Error() string { return e.Reason }
