package transport

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// BusyError is the refusal of a server that has not looked at the request and says when to
// try again.
type BusyError struct {
	err   error
	After time.Duration
}

// Error implements error.
func (e *BusyError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *BusyError) Unwrap() error { return e.err }

// busyOr returns a [BusyError], undelivered, if the server refused a request before it
// looked at it. It says so with 429 or 503 and a valid Retry-After (RFC 9110 section
// 10.2.3, RFC 6585 section 4). Otherwise it returns err.
func busyOr(resp *http.Response, err error) error {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return err
	}
	after, ok := retryAfter(resp.Header, time.Now())
	if !ok {
		return err
	}
	return &undelivered{&BusyError{err, after}}
}

// longestRetryAfter is the longest wait that is believed.
const longestRetryAfter = 24 * time.Hour

// retryAfter reads when a server wants to be called again. The value may be seconds, with
// a fraction as some servers send; a date in one of the three forms of RFC 9110 section
// 5.6.7, which is compared with the Date of the server if it sends one, because clocks
// differ; or milliseconds in retry-after-ms. A time in the past is zero. ok is false if
// there is no valid value.
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
