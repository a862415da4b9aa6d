// Package failure classifies errors by who has to act: whoever typed a command, whoever
// wrote the configuration, or whoever runs something that cannot be reached. Commands
// derive their exit code from it.
package failure

import "fmt"

// Kind says who has to act, and on what. The zero Kind says nothing.
type Kind uint8

// The kinds.
const (
	Usage       Kind = iota + 1 // the command line is wrong, or what it names does not exist
	Config                      // the configuration cannot be used
	Auth                        // the caller is unknown, or may not do this
	Unreachable                 // something does not answer, or another process holds it
	Tool                        // a tool has answered with an error
	Denied                      // the gateway does not allow it
	Budget                      // a budget is used up, or there were too many calls
	Breaker                     // a circuit breaker is open
)

// Error is an error with a kind. Its text is that of the wrapped error.
type Error struct {
	Kind Kind
	Err  error // never nil
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// New gives an error a kind; nil stays nil.
func New(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return &Error{kind, err}
}

// Newf is [New] for an error that is formatted like one of [fmt.Errorf].
func Newf(kind Kind, format string, args ...any) error {
	return &Error{kind, fmt.Errorf(format, args...)}
}

// Reworded returns an error with another text, which wraps the original one.
func Reworded(err error, format string, args ...any) error {
	return &reworded{fmt.Sprintf(format, args...), err}
}

type reworded struct {
	text string
	err  error
}

// Error implements error.
func (e *reworded) Error() string { return e.text }

// Unwrap returns the original error.
func (e *reworded) Unwrap() error { return e.err }
