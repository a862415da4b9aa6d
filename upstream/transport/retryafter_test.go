package transport

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	tests := []struct {
		name   string
		header map[string]string
		want   time.Duration
		ok     bool
	}{
		{"none", nil, 0, false},
		{"seconds", map[string]string{"Retry-After": "7"}, 7 * time.Second, true},
		{"zero", map[string]string{"Retry-After": "0"}, 0, true},
		{"parts of seconds", map[string]string{"Retry-After": " 1.5 "}, 1500 * time.Millisecond, true},
		{"negative", map[string]string{"Retry-After": "-3"}, 0, true},
		{"beyond every number", map[string]string{"Retry-After": "1e300"}, longestRetryAfter, true},
		{"infinite", map[string]string{"Retry-After": "inf"}, longestRetryAfter, true},
		{"no number", map[string]string{"Retry-After": "NaN"}, 0, false},
		{"words", map[string]string{"Retry-After": "soon"}, 0, false},
		{"empty", map[string]string{"Retry-After": ""}, 0, false},
		{"IMF-fixdate", map[string]string{"Retry-After": "Sun, 22 Nov 2026 08:00:30 GMT"}, 30 * time.Second, true},
		{"RFC 850", map[string]string{"Retry-After": "Sunday, 22-Nov-26 08:00:30 GMT"}, 30 * time.Second, true},
		{"asctime", map[string]string{"Retry-After": "Sun Nov 22 08:00:30 2026"}, 30 * time.Second, true},
		{"a date that is over", map[string]string{"Retry-After": "Sun, 22 Nov 2026 07:59:00 GMT"}, 0, true},
		{"a date far away", map[string]string{"Retry-After": "Sun, 22 Nov 2099 08:00:00 GMT"}, longestRetryAfter, true},
		{
			"by another clock",
			map[string]string{"Retry-After": "Sun, 22 Nov 2026 05:00:10 GMT", "Date": "Sun, 22 Nov 2026 05:00:00 GMT"},
			10 * time.Second, true,
		},
		{"milliseconds", map[string]string{"Retry-After-Ms": "250", "Retry-After": "1"}, 250 * time.Millisecond, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := make(http.Header)
			for name, value := range tt.header {
				h.Set(name, value)
			}
			if got, ok := retryAfter(h, now); got != tt.want || ok != tt.ok {
				t.Errorf("%v, %v; want %v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}
