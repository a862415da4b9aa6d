package runs

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/store"
)

// Bounds of runs.
const (
	// MaxOpen is how many runs of a principal may be open at once: running, waiting or
	// interrupted.
	MaxOpen = 64
	// maxKept is how many runs of a principal are kept; the oldest of those that are not
	// running go first.
	maxKept = 256
	// Kept is how long a run is kept after it has last changed.
	Kept = 7 * 24 * time.Hour
	// MaxRequest bounds what was asked of a run, and MaxResult what came of it, in bytes as
	// they are stored.
	MaxRequest, MaxResult = 512 << 10, 512 << 10
	// MaxStep bounds what was asked and answered in one step, in bytes as it is stored.
	MaxStep = 2 << 20
	// MaxSize bounds all steps of a run together, in bytes as they are stored.
	MaxSize = 32 << 20
	// MaxListed is how many runs a list has at most.
	MaxListed = 500

	prefix       = "run_"
	maxHolder    = 64
	maxName      = 512
	maxPrincipal = 1 << 10
)

// State is what has become of a run.
type State string

// The states.
const (
	Running     State = "running"     // a gateway works on it, or takes it over soon
	Waiting     State = "waiting"     // for results of functions that its owner runs
	Interrupted State = "interrupted" // its gateway has ended, and its owner has to be there to go on
	Limit       State = "limit"       // it has reached one, from which its owner may go on
	Completed   State = "completed"
	Failed      State = "failed"
	Cancelled   State = "cancelled"
)

// States are all of them.
var States = []State{Running, Waiting, Interrupted, Limit, Completed, Failed, Cancelled}

// Errors of this package.
var (
	// ErrTooMany means that the principal has [MaxOpen] runs open.
	ErrTooMany = errors.New("too many runs are open")
	// ErrLost means that the run belongs to another holder by now, or has ended.
	ErrLost = errors.New("the run is not held any more")
	// ErrTooLarge means that the run would be larger than it may be.
	ErrTooLarge = errors.New("the run is too large")
)

// Run is one run of an agent.
type Run struct {
	ID         string // "run_" and 26 characters of lower-case base32; set by the store
	Principal  string // whose run it is, as the gate encodes it
	Credential string // by which it was known; at most 512 bytes
	Lasting    bool   // its rights can be looked up when it is not there
	Capsule    string // of the endpoint; empty for none
	Agent      string // at most 512 bytes
	Request    []byte // opaque; at most [MaxRequest]

	// Set by the store.
	State              State
	Cancel             bool // somebody has asked for it
	Result             []byte
	CreatedAt, Changed time.Time
}

// Kind is what is done in a step.
type Kind string

// The kinds.
const (
	Inference Kind = "inference" // the model is asked
	Call      Kind = "call"      // a tool is called
	Function  Kind = "function"  // the client runs a function
)

// StepState is what has become of a step.
type StepState string

// The states of steps. All but the first are final.
const (
	Begun       StepState = "begun" // it may have had its effect
	Done        StepState = "done"
	StepFailed  StepState = "failed"  // it certainly had no effect, or says that it failed
	StepUnknown StepState = "unknown" // whether it had its effect is not known
)

// Step is one step of a run.
type Step struct {
	Seq   int // in the run, from 0
	Kind  Kind
	Turn  int    // from 1
	Name  string // of the tool, or of the model
	State StepState
	// CallID is that of the call in the audit log; empty for none.
	CallID string
	// Input, Output and Cost are tokens and cost units of an inference; what was reserved
	// until it has ended.
	Input, Output, Cost int64
	BegunAt, EndedAt    time.Time
	Asked, Answer       []byte // opaque
}

func (r *Run) check() error {
	switch {
	case r.Principal == "" || len(r.Principal) > maxPrincipal:
		return fmt.Errorf("a principal of %d bytes", len(r.Principal))
	case len(r.Request) > MaxRequest:
		return fmt.Errorf("a request of %d bytes: %w", len(r.Request), ErrTooLarge)
	case r.Agent == "":
		return errors.New("it has no agent")
	}
	for _, text := range []string{r.Credential, r.Capsule, r.Agent} {
		if len(text) > maxName || !isText(text) {
			return fmt.Errorf("%.64q is not text of at most %d bytes", text, maxName)
		}
	}
	return nil
}

func checkHolder(holder string) error {
	if holder == "" || len(holder) > maxHolder || !isText(holder) {
		return fmt.Errorf("%q is no holder", holder)
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Topic is that of the generations of the store: it rises when there is something to do
// for a gateway that holds a run, or for one that holds none.
const Topic = store.TopicRuns
