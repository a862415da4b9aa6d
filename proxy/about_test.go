package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/about"
)

// TestAbout opens the gateway in a browser, and with other programs that read. Whoever
// must authenticate still must; only the text differs.
func TestAbout(t *testing.T) {
	const page = "text/html,application/xhtml+xml,*/*;q=0.8"
	r := newRig(t, mounted(newScript(t, "secretive", mcp.Modern, `tool {"name":"echo"}`)))
	for _, c := range []struct {
		name, method, path string
		headers            []string
		status             int
		text, allow        string
	}{
		{"a browser", "GET", "/", []string{"Accept", page}, 200, about.Text, ""},
		{"a stranger's browser", "GET", "/", []string{"Accept", page, "Authorization", ""}, 200, about.Text, ""},
		{"curl", "GET", "/", []string{"Accept", "*/*", "Authorization", ""}, 200, about.Text, ""},
		{"a program without Accept", "HEAD", "/", []string{"Accept", "", "Authorization", ""}, 200, about.Text, ""},
		{"its icon", "GET", "/favicon.ico", []string{"Authorization", ""}, 204, "", ""},
		{"a client that looks for events", "GET", "/", []string{"Accept", "text/event-stream"}, 405, "the endpoint is /mcp", "GET, HEAD"},
		{"a stranger that looks for events", "GET", "/", []string{"Accept", "text/event-stream", "Authorization", ""}, 401, "jsonrpc", ""},
		{"a client that calls", "POST", "/", []string{"Accept", page}, 405, "the endpoint is /mcp", "GET, HEAD"},
		{"a stranger that calls", "POST", "/", []string{"Accept", page, "Authorization", ""}, 401, "jsonrpc", ""},
		{"a form", "PUT", "/", nil, 405, "jsonrpc", "GET, HEAD"},
		{"the endpoint in a browser", "GET", "/mcp", []string{"Accept", page}, 405, "A stream needs a session; send initialize first.\n\n" + about.Text, "POST"},
		{"the endpoint in a stranger's browser", "GET", "/mcp", []string{"Accept", page, "Authorization", ""}, 401, about.Text, ""},
		{"the endpoint of a client", "GET", "/mcp", []string{"Accept", "text/event-stream"}, 405, "jsonrpc", "POST"},
		{"HEAD of the endpoint", "HEAD", "/mcp", []string{"Accept", page}, 405, "jsonrpc", "GET, POST, DELETE"},
		{"another path", "GET", "/admin", []string{"Accept", page}, 404, about.Text, ""},
		{"another path for a stranger", "GET", "/admin", []string{"Accept", page, "Authorization", ""}, 401, about.Text, ""},
		{"another host", "GET", "/", []string{"Accept", page, "Host", "evil.example"}, 403, about.Text, ""},
		{"another host's icon", "GET", "/favicon.ico", []string{"Host", "evil.example"}, 403, "jsonrpc", ""},
		{"another page", "GET", "/", []string{"Accept", page, "Origin", "https://evil.example"}, 403, "origin", ""},
		{"a second spelling", "GET", "//", []string{"Accept", page, "Authorization", ""}, 401, about.Text, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := r.do(httpRequest(c.method, c.path, "", c.headers...))
			if w.code() != c.status || !strings.Contains(w.text(), c.text) || w.field("Allow") != c.allow {
				t.Errorf("status %d, Allow %q, %s; want %d, %q, %s", w.code(), w.field("Allow"), w.text(), c.status, c.allow, c.text)
			}
			if c.status == http.StatusUnauthorized && w.field("WWW-Authenticate") == "" {
				t.Error("no challenge")
			}
			if strings.Contains(w.text(), "secretive") {
				t.Errorf("a server is named: %s", w.text())
			}
			if strings.Contains(w.text(), about.Text) && (w.field("Content-Type") != "text/plain; charset=utf-8" || w.field("X-Content-Type-Options") != "nosniff") {
				t.Errorf("a browser may take this for a page: %s", w.field("Content-Type"))
			}
		})
	}
}
