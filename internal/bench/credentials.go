package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// maxShown is what a call may cost more with a token of an authorization server than
// with a header of the file, in µs.
const maxShown = 3.0

// authority gives tokens to clients, and counts how often.
type authority struct {
	url    string
	tokens atomic.Int64
}

// authorize serves an authorization server from this process until end is called.
func authorize(ctx context.Context) (a *authority, end func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("give tokens: %w", err)
	}
	a = &authority{url: "http://" + l.Addr().String()}
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": a.url, "token_endpoint": a.url + "/token"})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		n := a.tokens.Add(1)
		answer(w, map[string]any{"access_token": fmt.Sprintf("bench-token-%d", n), "token_type": "Bearer", "expires_in": 3600})
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it is closed
	}()
	return a, func() {
		server.Close()
		<-done
	}, nil
}

// benchCredentials compares the cost of an echo to a server that is shown a token of
// an authorization server with that of one that is shown a header of the file.
func benchCredentials(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	a, end, err := authorize(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var all []*contestant
	for _, auth := range []map[string]any{
		{"mode": "static"},
		{"mode": "client_credentials", "issuer": a.url, "client": map[string]any{"id": "bench", "secret": "bench-secret"}},
	} {
		r.shows = nil
		if auth["mode"] == "static" {
			r.shows = map[string]string{"Authorization": "Bearer bench-token-0"}
		}
		own := map[string]any{"namespace": "", "client_requests": map[string]any{"per_hour": 100000}, "auth": auth}
		v := variant{extra: map[string]any{"servers": map[string]any{"fast": own}}}
		c, err := r.contest(&v, mounts{"fast": up.url + "/mcp"}, s.era, n.warm)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	fixed, token := all[0], all[1]
	if err := inTurn(ctx, n, order{Do: "echo"}, fixed, token); err != nil {
		return nil, err
	}
	if given := a.tokens.Load(); given != 1 {
		return nil, fmt.Errorf("%d tokens were given, want one", given)
	}
	more := token.cpu.minus(fixed.cpu)
	return []row{{
		name: "a token of an authorization server: more than a header", reverse: "-", toolgate: more.both("µs"),
		limit: fmt.Sprintf("%v µs", maxShown), alloc: short(token.perCall() - fixed.perCall()),
		verdict: within(more.median(), maxShown),
	}}, nil
}
