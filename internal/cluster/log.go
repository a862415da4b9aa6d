package cluster

import (
	"log"
	"log/slog"
	"net/url"

	"net/http"
)

// quiet returns the log of the server of the standard library. A handshake that fails, such
// as that of a gateway with other keys, is a warning.
func quiet(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelWarn) }

// cloneURL is the address of a request at another member.
func cloneURL(r *http.Request, address string) *url.URL {
	return &url.URL{Scheme: "https", Host: address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
}
