package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{http.StatusOK: exitOK, http.StatusServiceUnavailable: exitUnreachable} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(status)
		}))
		for url, want := range map[string]int{server.URL: want, "http://127.0.0.1:1": exitUnreachable} {
			c := newHealthcheck()
			c.SetArgs([]string{url})
			c.SilenceErrors, c.SilenceUsage = true, true
			if got := report(c.ExecuteContext(t.Context())); got != want {
				t.Errorf("%s, which answers %d: exit code %d, want %d", url, status, got, want)
			}
		}
		server.Close()
	}
}
