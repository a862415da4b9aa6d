//go:build !windows

package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// A file in the working folder that nobody has accepted gets no request with the
// credentials of the user, from no command.
func TestUnacceptedFileAsksNobody(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	h := newHome(t)
	h.env["HOSTED_TOKEN"] = "abcdefghijklmnop"
	text := `{"mcpServers":{"x":{"url":"` + s.URL + `","headers":{"Authorization":"Bearer ${HOSTED_TOKEN}"}}},` +
		`"toolgate":{"spicedb":{"endpoint":"` + strings.TrimPrefix(s.URL, "http://") + `","token":"${HOSTED_TOKEN}","tls":false}}}`
	if err := os.WriteFile(h.path("toolgate.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"up"},
		{"ls"},
		{"tools"},
		{"call", "x__y"},
		{"why", "x__y"},
		{"tools", "lint"},
		{"login", "x"},
		{"mode", "READ_ONLY", "--reason", "a test"},
		{"catalog", "sync"},
		{"spicedb", "check"},
		{"validate"},
		{"doctor"},
		{"config", "show"},
	} {
		o := h.run(t, args...)
		if n := asked.Swap(0); n > 0 {
			t.Errorf("%v has sent the token: %+v", args, o)
		}
		if read := args[0] == "validate" || args[0] == "config" || args[0] == "doctor"; !read && !strings.Contains(o.stderr, "is not accepted as it is now") {
			t.Errorf("%v: %+v", args, o)
		}
	}
	if o := h.run(t, "doctor"); !strings.Contains(o.stdout, "TG1108") {
		t.Errorf("doctor: %+v", o)
	}
	h.ok(t, "trust")
	if o := h.run(t, "doctor"); asked.Load() == 0 || strings.Contains(o.stdout, "TG1108") {
		t.Errorf("an accepted file: %+v", o)
	}
}
