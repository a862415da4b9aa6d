// Package testbalancer has a load balancer for tests, which knows nothing of sessions.
package testbalancer

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
)

// Start serves clients until end is called. Each request goes over a connection of its own,
// which dial makes. A request that is not answered gets the status 502.
func Start(dial func(ctx context.Context) (net.Conn, error)) (url string, end func()) {
	connections := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host, r.Out.URL.Scheme, r.Out.URL.Host = r.In.Host, "http", "gateways"
		},
		Transport: connections, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The whole body comes first: a server closes what is not read of it when an answer
		// begins, and the connection to the gateway would break off.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	return server.URL, func() {
		server.CloseClientConnections()
		server.Close()
		connections.CloseIdleConnections()
	}
}
