package transport

import (
	"net/http"
	"strings"
)

// shortSecret is the length below which a header value cannot be told from other text.
const shortSecret = 8

// withoutSent removes the header values of a request from a text of the server. A server
// may repeat them, and secrets must not get into logs and reasons.
func withoutSent(text string, sent http.Header) string {
	for name, values := range sent {
		if name == "Accept" || name == "Content-Type" || strings.HasPrefix(name, "Mcp-") {
			continue
		}
		for _, value := range values {
			_, token, _ := strings.Cut(value, " ") // after the scheme
			for _, secret := range [...]string{value, token} {
				if len(secret) >= shortSecret {
					text = strings.ReplaceAll(text, secret, "[redacted]")
				}
			}
		}
	}
	return text
}

// echoed is an error whose text contained a part of the request.
type echoed struct {
	text string
	err  error
}

// Error implements error.
func (e *echoed) Error() string { return e.text }

// Unwrap returns the original error, whose text must not be shown.
func (e *echoed) Unwrap() error { return e.err }

// unechoed returns an error that repeats no header of the request.
func unechoed(err error, sent http.Header) error {
	text := err.Error()
	if clean := withoutSent(text, sent); clean != text {
		return &echoed{clean, err}
	}
	return err
}
