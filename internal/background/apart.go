package background

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errExited is the error of a function that has ended its goroutine.
var errExited = errors.New("it has ended its goroutine")

// Apart calls f on a stack of its own and waits for it. A stack that has grown stays as large
// while its goroutine waits for something else, so many that wait would hold what was needed for
// a moment. A panic of f is one of the caller.
func Apart(f func() error) error {
	err := errExited
	var panicked any
	done := make(chan struct{})
	go func() { // ends with f
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		err = f()
	}()
	<-done
	if panicked != nil {
		panic(panicked)
	}
	return err
}
