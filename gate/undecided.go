package gate

import "errors"

// RequestError is the error of a phase whose rules were asked and gave no answer to
// one request that can be used. It says nothing about other requests: what cannot be
// asked at all, such as a service that is down, is another error.
type RequestError struct{ Err error }

// Error implements error.
func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *RequestError) Unwrap() error { return e.Err }

// Undecidable tells whether a phase could not decide about this one request, while it
// decides about others. Who may not be told whether something may be viewed is told
// of it as little as who may not view it.
func (d *Decision) Undecidable() bool {
	_, ok := errors.AsType[*RequestError](d.Err)
	return d.Err != nil && ok
}
