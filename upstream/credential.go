package upstream

import (
	"context"
	"net/http"
)

// Credential is what a server is given to authenticate the gateway. It is
// asked for every request.
type Credential interface {
	// Headers returns the headers to send for a principal.
	Headers(ctx context.Context, principal string) (http.Header, error)
	// Key names the credential that a principal uses, without revealing it:
	// principals with the same key share catalogs and watches.
	Key(principal string) string
}

// Static is the credential of the configuration: the same headers for
// everyone.
type Static http.Header

// NewStatic returns the credential that sends the configured headers.
func NewStatic(headers map[string]string) Static {
	h := make(http.Header, len(headers))
	for name, value := range headers {
		h.Set(name, value)
	}
	return Static(h)
}

// Headers implements [Credential].
func (s Static) Headers(context.Context, string) (http.Header, error) {
	return http.Header(s), nil
}

// Key implements [Credential].
func (s Static) Key(string) string { return "static" }
