package gate

import "errors"

// RequestError is the error of a phase whose rules gave no usable answer to one request.
// It says nothing about other requests. A phase that cannot decide at all, because a
// service is down for example, returns another error.
type RequestError struct{ Err error }

// Error implements error.
func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *RequestError) Unwrap() error { return e.Err }

// Undecidable tells whether a phase could not decide about this one request, while it
// decides about others. What the request is about is then hidden from the caller, as if
// the caller might not view it.
func (d *Decision) Undecidable() bool {
	_, ok := errors.AsType[*RequestError](d.Err)
	return d.Err != nil && ok
}
