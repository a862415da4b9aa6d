// Package failure says of an error who has to act on it: whoever typed a command, whoever
// wrote the configuration, whoever runs what is not reached. Commands turn that into
// their exit code.
package failure

import "fmt"

// Kind is who has to act, and on what. The zero Kind says nothing.
type Kind uint8

// The kinds.
const (
	Usage       Kind = iota + 1 // the command line is wrong, or what it names does not exist
	Config                      // the configuration cannot be used
	Auth                        // who asks is not known, or may not do this
	Unreachable                 // something does not answer, or is held by another process
	Tool                        // a tool has answered with an error
	Denied                      // the gateway does not allow it
	Budget                      // a budget is used up, or there were too many calls
	Breaker                     // a circuit breaker is open
)

// Error is an error of a kind. It reads as the error in it does.
type Error struct {
	Kind Kind
	Err  error // never nil
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error in it.
func (e *Error) Unwrap() error { return e.Err }

// New gives an error its kind; nil stays nil.
func New(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return &Error{kind, err}
}

// Newf is [New] of an error that is made like one of [fmt.Errorf].
func Newf(kind Kind, format string, args ...any) error {
	return &Error{kind, fmt.Errorf(format, args...)}
}
