package jq

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"time"
)

// What a run may use. Steps are those of the interpreter and of functions that walk a
// value. Memory is the sum of what was made, whether it is still in use or not.
const (
	maxSteps  = 3_000_000
	maxMemory = 128 << 20
	maxTime   = 500 * time.Millisecond
	maxDepth  = 2000 // of a value that a function walks
	// timeEvery is after how many steps the time is looked at. A step whose cost is not
	// charged, such as the message of an error, may take milliseconds.
	timeEvery = 1 << 4
)

// Bytes that values take.
const (
	sizeElement = 40 // of an array, with the value itself
	sizeMember  = 64 // of an object
	sizeValue   = 16 // reference to a value
)

// meter counts what a run uses. It is the context of that run: gojq asks Done before
// each step. Only the goroutine of the run uses it.
type meter struct {
	context.Context // of the caller

	end    time.Time
	steps  int64  // left
	look   int64  // at the time, once no more steps than these are left
	memory int64  // left
	enter  int64  // bytes of one call of a function
	why    string // it was stopped; empty while it runs
}

// stopped is closed: what Done returns once a run is stopped.
var stopped = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// start prepares the meter for a run.
func (m *meter) start(ctx context.Context) {
	m.Context, m.end, m.steps, m.memory, m.why = ctx, time.Now().Add(maxTime), maxSteps, maxMemory, ""
	m.look = m.steps - timeEvery
}

// Done implements [context.Context]. It counts a step.
func (m *meter) Done() <-chan struct{} {
	if m.steps--; m.steps < 0 || m.steps <= m.look {
		m.check()
	}
	if m.why != "" {
		return stopped
	}
	return nil
}

// check stops a run that is out of steps, memory or time.
func (m *meter) check() {
	m.look = m.steps - timeEvery
	switch {
	case m.why != "":
	case m.memory < 0:
		m.why = "it makes values of more than 128 MiB"
	case m.steps < 0:
		m.why = "it takes more than 3,000,000 steps"
	case m.Context.Err() != nil:
		m.why = "the call has ended"
	case time.Now().After(m.end):
		m.why = "it takes more than 500 ms"
	}
}

// charge counts bytes and steps; what makes 256 bytes counts as a step, too. It returns an error when there are not as many left.
// The error ends what runs; why ends the program, which may catch the error.
func (m *meter) charge(bytes, steps int64) error {
	m.memory, m.steps = max(m.memory-max(bytes, 0), -1), max(m.steps-max(steps+bytes/256, 0), -1)
	if m.memory < 0 || m.steps < 0 || m.steps <= m.look {
		m.check()
	}
	if m.why != "" {
		return errStopped
	}
	return nil
}

// stop ends the run for a reason of its own.
func (m *meter) stop(why string) error {
	if m.why == "" {
		m.why = why
	}
	return errStopped
}

// shallow returns the bytes of a copy of a value that shares what it refers to.
func shallow(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v))
	case json.Number:
		return int64(len(v))
	case []any:
		return sizeValue * int64(len(v))
	case map[string]any:
		return sizeMember * int64(len(v))
	case *big.Int:
		return sizeValue + int64(v.BitLen()/8)
	}
	return 0
}

// length returns the number of elements or members of a value, or the bytes of a text.
func length(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v))
	case []any:
		return int64(len(v))
	case map[string]any:
		return int64(len(v))
	}
	return 0
}

// measure walks a value and counts the steps. It returns the number of values in it and
// the bytes of its text at most.
func (m *meter) measure(v any) (values, bytes int64, err error) {
	err = m.walk(v, 0, &values, &bytes)
	return values, bytes, err
}

func (m *meter) walk(v any, depth int, values, bytes *int64) error {
	if *values++; *values%timeEvery == 0 {
		if err := m.charge(0, timeEvery); err != nil {
			return err
		}
	}
	if depth > maxDepth {
		return m.stop("a value in it is nested too deeply")
	}
	*bytes += 4
	switch v := v.(type) {
	case string:
		*bytes += int64(len(v))
	case json.Number:
		*bytes += int64(len(v))
		return m.digits(v, values)
	case *big.Int:
		*bytes += int64(v.BitLen() / 3)
	case float64, int:
		*bytes += 24
	case []any:
		for _, e := range v {
			if err := m.walk(e, depth+1, values, bytes); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range v {
			*bytes += int64(len(k)) + 4
			if err := m.walk(e, depth+1, values, bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// digits counts a number of many digits as several values: it is read whenever it is
// compared or computed with.
func (m *meter) digits(n json.Number, values *int64) error {
	if len(n) > maxDigits {
		return m.stop(fmt.Sprintf("there is a number of more than %d digits", maxDigits))
	}
	if len(n) <= 2*wholeDigits {
		return nil
	}
	more := int64(len(n) / 8)
	*values += more
	return m.charge(0, more)
}
