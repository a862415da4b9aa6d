package raw

import "time"

// Answer appends the whole response to a request to out. It is called by one goroutine.
type Answer func(request *Frame, out []byte) []byte

// Caller makes the requests of one connection and checks their answers, one after the other.
type Caller interface {
	// Request appends the next request to out.
	Request(out []byte) []byte
	// Check says what is wrong with the answer to the last request.
	Check(response *Frame) error
}

// Run is what a load is to do.
type Run struct {
	// Count is how many calls are made in all.
	Count int
	// Rate is how many begin each second, whether those before have been answered or not. 0 is
	// as many as there are connections at a time.
	Rate float64
	// Most bounds the time; what has not begun by then is left out.
	Most time.Duration
}

// Figures are what came of a run.
type Figures struct {
	Done     int
	Took     time.Duration
	P50, P99 time.Duration // from the moment when a call was to begin
}
