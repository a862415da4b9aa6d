package transport

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// BusyError is a refusal of a server that has not looked at the request and says
// when to come again.
type BusyError struct {
	err   error
	After time.Duration
}

func (e *BusyError) Error() string { return e.err.Error() }
func (e *BusyError) Unwrap() error { return e.err }

// turnedAway marks the error of a request that a server refused before it looked
// at it, which it tells by saying when to come again: 429 or 503 with a
// Retry-After that can be read (RFC 9110 section 10.2.3, RFC 6585 section 4).
func turnedAway(resp *http.Response, err error) error {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return err
	}
	after, ok := retryAfter(resp.Header, time.Now())
	if !ok {
		return err
	}
	return &undelivered{&BusyError{err, after}}
}

// longestRetryAfter is what a longer one counts as: what a server writes there is
// its own choice.
const longestRetryAfter = 24 * time.Hour

// retryAfter reads when a server wants to be called again: in whole seconds or, as
// some servers write, in parts of them; as a date in any of the three forms of RFC
// 9110 section 5.6.7, which is held against the server's own Date where it sends
// one, because the clocks may differ; or in the milliseconds of retry-after-ms. A
// time that is over is zero. ok is false where there is none that can be read.
func retryAfter(h http.Header, now time.Time) (after time.Duration, ok bool) {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && !math.IsNaN(ms) {
		return bounded(ms / 1000), true
	}
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(seconds) {
		return bounded(seconds), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(0, at.Sub(now)), longestRetryAfter), true
}

func bounded(seconds float64) time.Duration {
	if seconds >= longestRetryAfter.Seconds() {
		return longestRetryAfter
	}
	return time.Duration(max(0, seconds) * float64(time.Second))
}
