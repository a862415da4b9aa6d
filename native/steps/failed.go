package steps

import (
	"encoding/json"
	"fmt"
)

// Done is what a run did of one step.
type Done struct {
	Step string `json:"step"`
	Call string `json:"call"`
	// Calls have succeeded, Errors have not. Unknown were ended while they ran, so that a
	// server may have done them.
	Calls   int `json:"calls"`
	Errors  int `json:"errors,omitempty"`
	Unknown int `json:"unknown,omitempty"`
}

// Failed is why a run ended before its plan did, and what it had done by then.
type Failed struct {
	Step string
	Item *int // index of the element; nil where the step has no for_each, or its list is wrong
	Done []Done
	Err  error
}

// Error implements error.
func (f *Failed) Error() string {
	at := "The step " + f.Step
	if f.Item != nil {
		at += fmt.Sprintf(" failed at element %d", *f.Item)
	} else {
		at += " failed"
	}
	return at + ": " + f.Err.Error()
}

// Unwrap returns the reason.
func (f *Failed) Unwrap() error { return f.Err }

// JSON returns it as an object for the caller.
func (f *Failed) JSON() []byte {
	done := f.Done
	if done == nil {
		done = []Done{}
	}
	raw, err := json.Marshal(struct {
		Failed string `json:"failed"`
		Item   *int   `json:"item,omitempty"`
		Error  string `json:"error"`
		Done   []Done `json:"done"`
	}{f.Step, f.Item, f.Err.Error(), done})
	if err != nil {
		return []byte("{}")
	}
	return raw
}

func (s *state) failed(step string, err error) *Failed {
	return &Failed{Step: step, Done: s.done, Err: err}
}
