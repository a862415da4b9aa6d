package rate

import (
	"math"
	"time"
)

// Kind says how a rate counts.
type Kind string

// The kinds. The empty Kind is a bucket.
const (
	Bucket  Kind = "bucket"  // Limit times at once, and then once more every Window/Limit
	Sliding Kind = "sliding" // at most Limit times in any Window
)

// Rate is how often something may happen. The zero Rate allows nothing.
type Rate struct {
	// Largest number of calls. Required.
	Limit int64 `config:"limit" required:"true" min:"1" max:"1000000"`
	// Time window. Required.
	Window time.Duration `config:"window" required:"true" min:"1s" max:"31d"`
	// How calls are counted: as a bucket, so many at once and one more whenever window/limit has passed, or in a sliding
	// window, of which none has more calls than the limit. Default: bucket.
	Kind Kind `config:"kind" enum:"bucket|sliding"`
}

// The range of rates. Within it the arithmetic in whole microseconds is exact, here and
// in the doubles of Redis scripts.
const (
	MaxLimit  = 1_000_000
	MinWindow = time.Second
	MaxWindow = 31 * 24 * time.Hour
)

// Valid reports whether the rate is in range.
func (r Rate) Valid() bool {
	known := r.Kind == "" || r.Kind == Bucket || r.Kind == Sliding
	return known && r.Limit >= 1 && r.Limit <= MaxLimit && r.Window >= MinWindow && r.Window <= MaxWindow
}

// Interval is how long one token takes to flow back, in microseconds, rounded up so
// that the rate is never exceeded.
func (r Rate) Interval() int64 {
	window := r.Window.Microseconds()
	return (window + r.Limit - 1) / r.Limit
}

// Burst is how far a bucket's debt may reach into the future, in microseconds.
func (r Rate) Burst() int64 { return r.Interval() * r.Limit }

// never is the wait for what no rate allows.
const never = time.Duration(math.MaxInt64)

// next returns the end of a bucket's debt after one more token, given its present end
// and the time, all in microseconds. A positive wait refuses; then it returns the
// present end. A debt beyond a full bucket, after a change of the rate or the clock,
// counts as a full bucket.
func (r Rate) next(owed, now int64) (then int64, wait time.Duration) {
	if !r.Valid() {
		return owed, never
	}
	burst := r.Burst()
	owed = min(max(owed, now), now+burst)
	then = owed + r.Interval()
	if over := then - now - burst; over > 0 {
		return owed, time.Duration(over) * time.Microsecond
	}
	return then, 0
}
