package listen

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestMetricsDoor(t *testing.T) {
	t.Parallel()
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	tests := []struct {
		name, address, token, host string
		headers                    []string
		want                       int
	}{
		{"this machine", "127.0.0.1:7779", "secret", "127.0.0.1:7779", nil, http.StatusTeapot},
		{"by name", "localhost:7779", "secret", "localhost:7779", nil, http.StatusTeapot},
		{"by IPv6", "[::1]:7779", "secret", "[::1]:7779", nil, http.StatusTeapot},
		{"a rebound name", "127.0.0.1:7779", "secret", "evil.example:7779", nil, http.StatusForbidden},
		{"a page", "127.0.0.1:7779", "secret", "127.0.0.1:7779", []string{"Origin", "http://127.0.0.1:1"}, http.StatusForbidden},
		{"elsewhere without a token", "0.0.0.0:7779", "secret", "10.0.0.1:7779", nil, http.StatusUnauthorized},
		{"elsewhere with a wrong token", "0.0.0.0:7779", "secret", "10.0.0.1", []string{"Authorization", "Bearer secrets"}, http.StatusUnauthorized},
		{"elsewhere with another scheme", "0.0.0.0:7779", "secret", "10.0.0.1", []string{"Authorization", "Basic secret"}, http.StatusUnauthorized},
		{"elsewhere with the token", "0.0.0.0:7779", "secret", "10.0.0.1", []string{"Authorization", "Bearer secret"}, http.StatusTeapot},
		{"elsewhere, called local", ":7779", "secret", "localhost", nil, http.StatusUnauthorized},
		{"no token at all", "0.0.0.0:7779", "", "10.0.0.1", []string{"Authorization", "Bearer "}, http.StatusUnauthorized},
	}
	for _, tt := range tests {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.Host = tt.host
		for i := 0; i < len(tt.headers); i += 2 {
			r.Header.Set(tt.headers[i], tt.headers[i+1])
		}
		w := httptest.NewRecorder()
		Metrics(inside, tt.address, tt.token).ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, w.Code, tt.want)
		}
	}
}
