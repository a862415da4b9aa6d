package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// After an answer of which nothing more is wanted, a connection is used again if only its end
// was missing.
func TestFinish(t *testing.T) {
	t.Parallel()
	const begin = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok"
	for _, tt := range []struct {
		name, text string
		read       int
		kept       bool
	}{
		{"the end is there", begin + "\r\n0\r\n\r\n", 2, true},
		{"not all is read", begin + "\r\n0\r\n\r\n", 1, true},
		{"another chunk", begin + "\r\n1\r\nx\r\n0\r\n\r\n", 2, true},
		{"a length", answer, 1, true},
		{"a length, read", answer, 2, true},
		{"no end", begin, 2, false},
		{"half an end", begin + "\r\n0\r\n", 2, false},
		{"trailers", begin + "\r\n0\r\nA: b\r\n\r\n", 2, false},
		{"no chunk", begin + "\r\nx\r\n\r\n", 2, false},
		{"more", begin + "\r\n0\r\n\r\nsmuggled", 2, false},
		{"another end", begin + "\r\n0\r\n\r\n\r\n0\r\n\r\n", 2, false},
		{"much more", "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat("x", 9000), 1, false},
		{"odd", "HTTP/1.0 200 OK\r\n\r\nok", 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := NewPool(scripted([]byte(tt.text), 1<<20))
			body := begun(t, p, "http://server.example", tt.read)
			if !Finish(body) {
				body.Close()
			}
			if kept := p.pop("server.example") != nil; kept != tt.kept {
				t.Errorf("the connection is kept: %t", kept)
			}
		})
	}
}

// begun reads a part of an answer.
func begun(t *testing.T, p *Pool, to string, read int) io.ReadCloser {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, read)); err != nil {
		t.Fatal(err)
	}
	return resp.Body
}

// The end of an answer may come after its caller has gone. Until it has come, the next
// request takes another connection.
func TestEndComesLater(t *testing.T) {
	t.Parallel()
	more, sent := make(chan struct{}), make(chan struct{})
	to := raw(t, func(n int, c net.Conn, in *bufio.Reader) {
		for i := 0; readRequest(in); i++ {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
			if n == 0 && i == 0 {
				<-more
			}
			_, _ = io.WriteString(c, "1\r\nx\r\n0\r\n\r\n")
			if n == 0 && i == 0 {
				close(sent)
			}
		}
	})
	p, dialed := newPool(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if !Finish(resp.Body) {
		t.Fatal("the body is not one of this package")
	}
	cancel() // the call is over
	if got, err := post(t.Context(), p, to, "{}"); got != "okx" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if dialed.Load() != 2 {
		t.Errorf("%d connections while the end is missing", dialed.Load())
	}
	close(more)
	<-sent
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool { // so that only the first one is left
		if c.rest == nil {
			c.net.Close()
		}
		return c.rest == nil
	})
	if len(p.idle) != 1 {
		t.Fatalf("%d idle connections", len(p.idle))
	}
	for p.idle[0].settle() == waiting {
		runtime.Gosched() // what was sent is on its way
	}
	p.mu.Unlock()
	if got, err := post(t.Context(), p, to, "{}"); got != "okx" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if dialed.Load() != 2 {
		t.Error("the connection was not used again")
	}
}

// An answer of net/http, too, goes on after the end of its context.
func TestFinishNetHTTP(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		echo(w, r)
		w.(http.Flusher).Flush()
		<-more
	}))
	t.Cleanup(server.Close)
	p, dialed := newPool(t)
	p.other.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if Finish(resp.Body) {
		t.Error("nobody would read the rest")
	}
	cancel()
	close(more)
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
		t.Errorf("the rest: %q, %v", rest, err)
	}
	resp.Body.Close()
	if _, err := post(t.Context(), p, server.URL, "{}"); err != nil {
		t.Fatal(err)
	}
	if dialed.Load() != 1 {
		t.Errorf("%d connections", dialed.Load())
	}
}

// A request whose context has ended is not sent, also over a connection that is there.
func TestEndedBefore(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	p, _ := newPool(t)
	if _, err := post(t.Context(), p, server.URL, "{}"); err != nil {
		t.Fatal(err)
	}
	why := errors.New("nobody wants it")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for range 20 {
		if _, err := post(ctx, p, server.URL, "{}"); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := post(t.Context(), p, server.URL, "{}"); err != nil || requests.Load() != 2 {
		t.Errorf("%d requests, %v", requests.Load(), err)
	}
}
