package listen

import (
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/internal/loopback"
)

// Metrics locks the metrics of a listener: they name tools and callers'
// habits. What only this machine reaches is open to it, under the names that a
// page from elsewhere cannot take (DNS rebinding); every other listener asks for
// the admin token as a bearer token.
func Metrics(inside http.Handler, address, token string) http.Handler {
	local := loopback.Address(address)
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case local && (!loopback.Host(loopback.Name(r.Host)) || len(r.Header["Origin"]) > 0):
			refuseMetrics(w, http.StatusForbidden, "metrics are for this machine; ask for them under the address that they are served on")
			return
		case !local:
			scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			got := sha256.Sum256([]byte(text))
			if token == "" || !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuseMetrics(w, http.StatusUnauthorized, "metrics on this address need the admin token, which is in the state folder, as a bearer token")
				return
			}
		}
		inside.ServeHTTP(w, r)
	})
}

func refuseMetrics(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
