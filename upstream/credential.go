package upstream

import (
	"context"
	"net/http"
)

type tokenKey struct{}

// withToken notes in the context of a call which token the caller presented.
func withToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenOf returns the name of the token that the caller of a call presented, see
// [mcp.Call]. A credential asks for it while it makes headers. It is empty outside of
// calls.
func TokenOf(ctx context.Context) string {
	token, _ := ctx.Value(tokenKey{}).(string)
	return token
}

// Static is the credential of the configuration: the same headers for every principal.
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
