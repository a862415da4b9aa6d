package http1_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
)

// seen is what a handler sees of a request.
type seen struct {
	Method, URI, Host, Proto, From string
	URL                            url.URL
	Header                         http.Header
	Coding                         []string
	Length                         int64
	Close, NoBody, Server, Local   bool
	Body, BodyErr                  string

	ended   bool // the body was read to its end
	aborted bool
}

// actor is a handler that notes what it sees, and does what the query of the request says:
//
//	read    how much of the body it reads: all, half or none
//	status  of the response
//	size    of its body, which is written in so many parts as writes says
//	length  what Content-Length says more than that is written; nothing without it
//	flush   after the status and every part
//	close   asks to close the connection
//	abort   ends the exchange before the response is complete
type actor struct {
	mu   sync.Mutex
	seen []*seen
}

// ServeHTTP implements [http.Handler].
func (a *actor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := &seen{
		Method: r.Method, URI: r.RequestURI, Host: r.Host, Proto: fmt.Sprint(r.Proto, r.ProtoMajor, r.ProtoMinor), From: r.RemoteAddr,
		URL: *r.URL, Header: r.Header.Clone(), Coding: r.TransferEncoding, Length: r.ContentLength, Close: r.Close,
		NoBody: r.Body == http.NoBody,
	}
	_, s.Server = r.Context().Value(http.ServerContextKey).(*http.Server)
	_, s.Local = r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	a.mu.Lock()
	a.seen = append(a.seen, s)
	a.mu.Unlock()
	do := r.URL.Query()
	s.read(r.Body, do.Get("read"))
	h := w.Header()
	h.Set("Content-Type", "text/x-test")
	h["X-Twice"] = []string{" a ", "b\r\nc: d"}
	h.Set("Not A Name", "x")
	if do.Has("close") {
		h.Set("Connection", "close")
	}
	if do.Has("sniff") || do.Get("status") == "304" { // net/http leaves the type out of a 304
		h.Del("Content-Type")
	}
	size, writes := number(do, "size", 0, 20_000), number(do, "writes", 1, 8)
	if do.Has("length") {
		h.Set("Content-Length", strconv.Itoa(size+number(do, "length", 0, 10)))
	}
	if do.Has("status") {
		w.WriteHeader(max(200, number(do, "status", 200, 599)))
	}
	h.Set("X-Late", "after the status, or not")
	flush := func() {
		if do.Has("flush") {
			_ = http.NewResponseController(w).Flush()
		}
	}
	flush()
	part := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
	for i := range writes {
		if _, err := w.Write(part[size*i/writes : size*(i+1)/writes]); err != nil {
			break
		}
		flush()
	}
	if do.Has("abort") {
		s.aborted = true
		panic(http.ErrAbortHandler)
	}
}

func (s *seen) read(body io.Reader, how string) {
	var b []byte
	var err error
	switch how {
	case "none":
		s.ended = s.Length == 0
		return
	case "half":
		b = make([]byte, min(max(1, s.Length/2), 1<<20))
		var n int
		n, err = io.ReadFull(body, b)
		b = b[:n]
		s.ended = s.Length == 0
	default:
		b, err = io.ReadAll(body)
		s.ended = err == nil
	}
	s.Body = string(b)
	switch {
	case err == nil:
	case errors.Is(err, io.ErrUnexpectedEOF):
		s.BodyErr = "cut off"
	case errors.Is(err, io.EOF):
		s.BodyErr = "end"
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.BodyErr = "late"
	default:
		s.BodyErr = "broken"
	}
}

// number returns a number of a query.
func number(of url.Values, name string, otherwise, most int) int {
	n, err := strconv.Atoi(of.Get(name))
	if err != nil || n < 0 {
		return otherwise
	}
	return min(n, most)
}
