// Package testwait lets a test wait for what another goroutine or process does.
package testwait

import (
	"flag"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/raced"
)

// The pauses between two looks.
const (
	shortest = time.Millisecond
	longest  = 50 * time.Millisecond
)

// Until waits until ok returns true. It ends the test when that takes longer than d;
// what says then what was waited for.
func Until(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	if !Within(d, ok) {
		t.Fatalf("not within %v: %s", d, what)
	}
}

// Receive returns what comes from a channel. It ends the test when that takes longer than
// d; what says then what was waited for.
func Receive[T any](t testing.TB, d time.Duration, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(d):
		t.Fatalf("not within %v: %s", d, what)
	}
	return value
}

// Within calls ok until it returns true, and reports whether it did. The last look begins
// when d is over. Each pause is a tenth of the time waited so far, so that what is soon
// there is soon seen, and what takes long is not asked all the time.
func Within(d time.Duration, ok func() bool) bool {
	for began := time.Now(); ; {
		left := d - time.Since(began)
		if ok() {
			return true
		}
		if left <= 0 {
			return false
		}
		waited := time.Since(began)
		<-time.After(min(max(waited/10, shortest), longest, d-waited))
	}
}

// Hang never returns: a program that a test starts calls it to hang until it is killed. It
// waits for a timer, since the runtime ends a program whose goroutines all wait for each
// other ("all goroutines are asleep"), as `select {}` does where the program has no C.
func Hang() {
	for {
		<-time.After(math.MaxInt64)
	}
}

// AtOnce lets so many parallel tests of a package run at a time, however few processors there
// are: they wait for processes and deadlines more than they compute. Under the race detector,
// where all takes several times longer, the first number counts; 0 leaves that of the
// processors. TestMain calls it.
func AtOnce(underRace, otherwise int) {
	n := raced.Times(underRace, otherwise)
	if n == 0 {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // no test runs without the flag
	}
}
