package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// reverseProgram is the measure: the library's reverse proxy as it is, which
// reads the request body into memory first, as everyone must who looks into it.
func reverseProgram(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("reverse", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "loopback `address`")
	to := flags.String("to", "", "`URL` of the server behind it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	h, err := reverseHandler(*to)
	if err != nil {
		return err
	}
	return serve(ctx, *listen, h)
}

// reverseHandler returns the proxy in front of a URL. Its pool is as large as
// toolgate's, so that it never dials for a call.
func reverseHandler(to string) (http.Handler, error) {
	target, err := url.Parse(to)
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("the URL %q names no host", to)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{
			MaxIdleConns: 64, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, DisableCompression: true,
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		proxy.ServeHTTP(w, r)
	}), nil
}
