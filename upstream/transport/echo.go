package transport

import (
	"net/http"
	"strings"
)

// shortSecret is below what length a header's value is no secret that could be told
// from other text.
const shortSecret = 8

// withoutSent takes the values of a request's own headers out of a text that the server
// may have made of them: what it is shown must not get into logs and reasons.
func withoutSent(text string, sent http.Header) string {
	for name, values := range sent {
		if name == "Accept" || name == "Content-Type" || strings.HasPrefix(name, "Mcp-") {
			continue
		}
		for _, value := range values {
			_, token, _ := strings.Cut(value, " ") // behind a scheme
			for _, secret := range [...]string{value, token} {
				if len(secret) >= shortSecret {
					text = strings.ReplaceAll(text, secret, "[redacted]")
				}
			}
		}
	}
	return text
}

// echoed is an error whose text had something of the request in it.
type echoed struct {
	text string
	err  error
}

// Error implements error.
func (e *echoed) Error() string { return e.text }

// Unwrap returns the error with its own text, which is not to be shown.
func (e *echoed) Unwrap() error { return e.err }

// unechoed returns an error of a request that repeats none of its headers.
func unechoed(err error, sent http.Header) error {
	text := err.Error()
	if clean := withoutSent(text, sent); clean != text {
		return &echoed{clean, err}
	}
	return err
}
