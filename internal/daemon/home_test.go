//go:build !windows

package daemon_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A browser at the gateway's address is told which URL to give to a client, and nothing that
// only callers may know. Everybody else gets what the gateway answers.
func TestHomePage(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := withKeys("alice")
	section["listen"] = map[string]any{"hosts": []any{"gate.example"}}
	h.write(t, servers{"secretserver": fake("one")}, section)
	r := h.newRunning(t)
	handler := r.Handler()
	get := func(method, host, accept, path string) *httptest.ResponseRecorder {
		q := httptest.NewRequestWithContext(t.Context(), method, "http://"+host+path, http.NoBody)
		q.RemoteAddr = "127.0.0.1:9"
		if accept != "" {
			q.Header.Set("Accept", accept)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, q)
		return w
	}
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, host := range []string{"127.0.0.1:7777", "gate.example", "localhost:1"} {
		w := get(http.MethodGet, host, browser, "/")
		page := w.Body.String()
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(page, "http://"+host+"/mcp") || !strings.Contains(page, "Bearer") {
			t.Errorf("%s: %d %s\n%s", host, w.Code, w.Header(), page)
		}
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || w.Header().Get("X-Frame-Options") != "DENY" {
			t.Error(w.Header())
		}
		_, style, _ := strings.Cut(page, "<style>")
		style, _, _ = strings.Cut(style, "</style>")
		if sum := sha256.Sum256([]byte(style)); style == "" || !strings.Contains(csp, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
			t.Errorf("the policy does not let the page have its style: %s", csp)
		}
		for _, secret := range []string{"secretserver", "alice", "pid", h.dir} {
			if strings.Contains(page, secret) {
				t.Errorf("the page has %s", secret)
			}
		}
	}
	for name, tt := range map[string]struct {
		method, host, accept, path string
		status                     int
	}{
		"a rebound name":  {http.MethodGet, "evil.example", browser, "/", http.StatusForbidden},
		"a program":       {http.MethodGet, "127.0.0.1:7777", "*/*", "/", http.StatusOK},
		"no Accept":       {http.MethodGet, "127.0.0.1:7777", "", "/", http.StatusOK},
		"another path":    {http.MethodGet, "127.0.0.1:7777", browser, "/other", http.StatusUnauthorized},
		"a POST":          {http.MethodPost, "127.0.0.1:7777", browser, "/", http.StatusUnauthorized},
		"an event stream": {http.MethodGet, "127.0.0.1:7777", "text/event-stream", "/", http.StatusUnauthorized},
	} {
		w := get(tt.method, tt.host, tt.accept, tt.path)
		if w.Code != tt.status || strings.Contains(w.Body.String(), "<html") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// A gateway that takes any host shows its page under its own address, and not under a name that
// somebody has made for it.
func TestHomePageOfAStrangeName(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := withKeys("alice")
	section["listen"] = map[string]any{"http": "0.0.0.0:7777"}
	h.write(t, servers{"a": fake("one")}, section)
	r := h.newRunning(t)
	for host, shown := range map[string]bool{"203.0.113.4:7777": true, "[2001:db8::1]:7777": true, "evil.example:7777": false} {
		q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/", http.NoBody)
		q.RemoteAddr = "198.51.100.9:9"
		q.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, q)
		if strings.Contains(w.Body.String(), "<html") != shown {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
}

// The public URL of a gateway is the one to give to clients.
func TestHomePageHasThePublicURL(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, map[string]any{"listen": map[string]any{"public_url": "https://gate.example/"}})
	r := h.newRunning(t)
	q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:7777/", http.NoBody)
	q.RemoteAddr = "127.0.0.1:9"
	q.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, q)
	if page := w.Body.String(); !strings.Contains(page, "https://gate.example/mcp") || strings.Contains(page, "Bearer") {
		t.Errorf("%d %s", w.Code, page)
	}
}
