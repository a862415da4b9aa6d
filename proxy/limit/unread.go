package limit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// lingerTime is how long a connection is still read after a response that did not
	// wait for the body of its request. It gives a client that is still sending the
	// time to read the response.
	lingerTime = time.Second
	// maxArrivedBody bounds a body that is read if it has arrived with its headers.
	maxArrivedBody = 4 << 10
)

// WithoutUnread answers requests at once even if nobody has read their body. The server
// of the standard library first reads up to 256 KiB of such a body, and waits for it
// like for any other. A response with the method NeverAwaitsBody needs no such help.
func WithoutUnread(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || r.ContentLength == 0 { // a stream of HTTP/2 ends by itself
			h.ServeHTTP(w, r)
			return
		}
		body := knownBody{ReadCloser: r.Body, ctx: r.Context()}
		body.unknown()
		if _, never := w.(interface{ NeverAwaitsBody() }); never {
			r.Body = &body
			defer body.unknown()
			h.ServeHTTP(w, r)
			return
		}
		b := &unreadResponse{ResponseWriter: w, in: *r, body: &body}
		b.in.Body = &body // not in r, whose body the server inspects
		defer b.begin()
		h.ServeHTTP(b, &b.in)
	})
}

// unreadResponse is the response to an HTTP/1 request with a body. It is used like any
// [http.ResponseWriter]. Another goroutine may read the body before the response
// begins.
type unreadResponse struct {
	http.ResponseWriter
	in    http.Request
	body  *knownBody
	begun bool // the response has begun
}

// Unwrap is for [http.ResponseController].
func (b *unreadResponse) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (b *unreadResponse) WriteHeader(status int) {
	if status >= http.StatusOK {
		b.begin()
	}
	b.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (b *unreadResponse) Write(p []byte) (int, error) {
	b.begin()
	return b.ResponseWriter.Write(p)
}

// begin handles an unread body before the response. A small body that has arrived
// completely is skipped, and the connection stays open. With any other the connection
// closes after the response, which does not wait.
func (b *unreadResponse) begin() {
	if b.begun {
		return
	}
	b.begun = true
	if b.body.ended.Load() || b.bodyArrived() {
		return
	}
	b.body.unknown()
	b.Header().Set("Connection", "close")
	c := http.NewResponseController(b.ResponseWriter)
	_ = c.EnableFullDuplex() // else the server reads on before it answers
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
}

// bodyArrived reports whether the rest of the body has arrived, and reads it. It does
// not read the body of a request with "Expect: 100-continue", because reading would ask
// for it. It must not be used before a stream.
func (b *unreadResponse) bodyArrived() bool {
	if b.in.Method != http.MethodPost || b.in.ContentLength < 0 || b.in.ContentLength > maxArrivedBody || b.in.Header.Get("Expect") != "" {
		return false
	}
	c := http.NewResponseController(b.ResponseWriter)
	if c.SetReadDeadline(time.Unix(1, 0)) != nil { // do not wait
		return false
	}
	_, _ = io.Copy(io.Discard, b.in.Body)
	return b.body.ended.Load()
}

// knownBody is the body of a request, at whose end the sender is known.
type knownBody struct {
	io.ReadCloser

	ctx   context.Context
	ended atomic.Bool // it was read to its end
}

// unknown says that the sender is not known, unless it has sent the body.
func (b *knownBody) unknown() {
	if !b.ended.Load() {
		Unknown(b.ctx)
	}
}

// Read implements [io.Reader].
func (b *knownBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
		Known(b.ctx)
	}
	return n, err
}
