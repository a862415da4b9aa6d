package limit

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// lingerTime is how long a connection is still listened to behind an answer that
	// was given before the body of its request had come. A client that is still
	// sending then has the time to read the answer.
	lingerTime = time.Second
	// maxHere is how much of such a body is read where it came with its headers.
	maxHere = 4 << 10
)

// WithoutUnread answers requests whose body nobody has read at once. The server of
// the standard library reads up to 256 KiB of such a body before it sends the
// answer, and waits for it as long as for any other.
func WithoutUnread(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || r.ContentLength == 0 { // a stream of HTTP/2 ends alone
			h.ServeHTTP(w, r)
			return
		}
		b := &bodied{ResponseWriter: w, in: *r, body: r.Body}
		b.in.Body = (*watchedBody)(b) // not in r, of which the server looks at the body
		Unknown(r.Context())
		defer b.begin()
		h.ServeHTTP(b, &b.in)
	})
}

// bodied is a request of HTTP/1 with a body, and its answer. It is used as a
// [http.ResponseWriter] is; the body may be read by another goroutine before the
// answer begins.
type bodied struct {
	http.ResponseWriter
	in    http.Request
	body  io.ReadCloser
	ended bool // the body was read to its end
	begun bool // the answer has begun
}

// Unwrap is for [http.ResponseController].
func (b *bodied) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (b *bodied) WriteHeader(status int) {
	if status >= http.StatusOK {
		b.begin()
	}
	b.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (b *bodied) Write(p []byte) (int, error) {
	b.begin()
	return b.ResponseWriter.Write(p)
}

// begin looks, before the answer, at what has come of a body that was not read. A
// small one that is here whole is put aside and the connection goes on. With any
// other the connection ends behind the answer, which does not wait.
func (b *bodied) begin() {
	if b.begun {
		return
	}
	b.begun = true
	if b.ended || b.isHere() {
		return
	}
	Unknown(b.in.Context())
	b.Header().Set("Connection", "close")
	c := http.NewResponseController(b.ResponseWriter)
	_ = c.EnableFullDuplex() // else the server reads on before it answers
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
}

// isHere tells whether the rest of the body has come already, which it reads then.
// Of a request that waits for leave to send its body nothing is read: that would
// give it. A request that is answered by a stream would end by it.
func (b *bodied) isHere() bool {
	if b.in.Method != http.MethodPost || b.in.ContentLength < 0 || b.in.ContentLength > maxHere || b.in.Header.Get("Expect") != "" {
		return false
	}
	c := http.NewResponseController(b.ResponseWriter)
	if c.SetReadDeadline(time.Unix(1, 0)) != nil { // nothing is waited for
		return false
	}
	_, _ = io.Copy(io.Discard, b.in.Body)
	return b.ended
}

// watchedBody is the body of a request; it notes its end.
type watchedBody bodied

// Read implements [io.Reader].
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
		Known(b.in.Context())
	}
	return n, err
}

// Close implements [io.Closer].
func (b *watchedBody) Close() error { return b.body.Close() }
