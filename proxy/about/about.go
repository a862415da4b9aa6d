// Package about answers people who open a gateway in a browser.
package about

import (
	"io"
	"net/http"
	"strings"
)

// Text tells a person who opens the gateway's address in a browser what it is. Strangers
// may read it, so it says nothing about this gateway.
const Text = `This is toolgate, a gateway for MCP, the Model Context Protocol.

It is for MCP clients, such as editors and agents, not for browsers.
Clients use the path /mcp of this address.

On the machine where it runs:
  toolgate status            shows which servers it runs
  toolgate connect CLIENT    points a client at it
`

// reads reports whether a request only reads.
func reads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// Browser reports whether a person reads the answer. No client of MCP asks for HTML.
func Browser(r *http.Request) bool {
	return reads(r) && strings.Contains(strings.Join(r.Header["Accept"], ","), "text/html")
}

// Serve serves what browsers ask for at an address that somebody opens in them. It
// needs no authentication. It reports false for requests for anything else; a client that
// looks for an event stream at the root is told where it is.
func Serve(w http.ResponseWriter, r *http.Request, path string) bool {
	if !reads(r) {
		return false
	}
	switch path {
	case "/favicon.ico":
		w.Header().Set("Cache-Control", "max-age=86400")
		w.WriteHeader(http.StatusNoContent)
		return true
	case "/":
		if strings.Contains(strings.Join(r.Header["Accept"], ","), "text/event-stream") && !Browser(r) {
			return false
		}
		Write(w, http.StatusOK, Text)
		return true
	}
	return false
}

// Write writes a text that a browser shows as it is.
func Write(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
