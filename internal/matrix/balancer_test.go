package matrix

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/daemon/daemontest"
)

// balance serves clients by a load balancer that knows nothing of sessions: each request goes
// to the next address, over a connection of its own.
func balance(to []string) (url string, end func()) {
	var next atomic.Uint64
	connections := &http.Transport{DisableKeepAlives: true}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host, r.Out.URL.Scheme, r.Out.URL.Host = r.In.Host, "http", to[next.Add(1)%uint64(len(to))]
		},
		Transport: connections, FlushInterval: -1,
	})
	return server.URL, func() {
		server.CloseClientConnections()
		server.Close()
		connections.CloseIdleConnections()
	}
}

// sealKey writes the key that gateways share.
func sealKey(t *testing.T, home *daemontest.Home) string {
	t.Helper()
	path := home.Path("seal.key")
	if err := os.WriteFile(path, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
