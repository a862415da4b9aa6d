package http1_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/proxy/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is what the server of this package and that of the standard library have in common.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error
}

// plainServer returns a server of the standard library with limits that no test reaches.
func plainServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: time.Minute, ReadTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn),
	}
}

// start serves a listener until the end of the test.
func start(t testing.TB, s server, l net.Listener) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve = %v, want ErrServerClosed", err)
		}
	})
}

// listen serves a port of this machine with the server of this package, and returns its listener.
func listen(t testing.TB, of *http.Server) (*http1.Server, net.Listener) {
	t.Helper()
	l := port(t)
	s := http1.New(of)
	start(t, s, l)
	return s, l
}

func port(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// client is the end of a client.
type client struct {
	net.Conn
	t    testing.TB
	from *bufio.Reader
}

// patience is how long a client waits for what must come.
const patience = 20 * time.Second

func dial(t testing.TB, l net.Listener) *client {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &client{Conn: c, t: t, from: bufio.NewReader(c)}
}

// send sends text as it is.
func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal("send:", err)
	}
}

// answer reads a response to its end.
func (c *client) answer() (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.from, nil)
	if err != nil {
		c.t.Fatal("no response:", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("body of the response after %q: %v", body, err)
	}
	return resp, string(body)
}

// wantAnswer reads a response with the status 200 and a body.
func (c *client) wantAnswer(want string) {
	c.t.Helper()
	resp, body := c.answer()
	if resp.StatusCode != http.StatusOK || body != want {
		c.t.Fatalf("response = %d %q, want 200 %q", resp.StatusCode, body, want)
	}
}

// wantEnd waits until the server closes the connection.
func (c *client) wantEnd() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.from); len(rest) > 0 || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		c.t.Fatalf("read %q, %v, want the end of the connection", rest, err)
	}
}

func isTimeout(err error) bool {
	at, ok := errors.AsType[net.Error](err)
	return ok && at.Timeout()
}

// get is a request without a body.
func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: gate.example\r\n\r\n" }

// post is a request with a body.
func post(path, body string) string { return postPart(path, body, len(body)) }

// postPart is one that has told more of its body than it has sent.
func postPart(path, body string, length int) string {
	return "POST " + path + " HTTP/1.1\r\nHost: gate.example\r\nContent-Length: " + strconv.Itoa(length) + "\r\n\r\n" + body
}

// within waits for an event.
func within[T any](t testing.TB, what string, events <-chan T) T {
	t.Helper()
	select {
	case v := <-events:
		return v
	case <-time.After(patience):
		t.Fatal("it did not happen in time: " + what)
		panic("unreachable")
	}
}

// taps is a listener of connections that tell how much was read of them.
type taps struct {
	net.Listener
	read chan int
}

func tap(l net.Listener) *taps { return &taps{l, make(chan int, 1000)} }

func (l *taps) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tapped{c.(*net.TCPConn), l.read}, nil
}

type tapped struct {
	*net.TCPConn
	read chan int
}

func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.read <- n
	return n, err
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
