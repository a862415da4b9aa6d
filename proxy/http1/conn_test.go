package http1_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/proxy/http1"
	"github.com/toolgate/toolgate/proxy/limit"
)

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, r.URL.Path+":"+string(body))
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	_, l := listen(t, plainServer(http.HandlerFunc(echo)))
	c := dial(t, l)
	for i := range 100 {
		if i%2 == 0 {
			c.send(get(fmt.Sprint("/", i)))
			c.wantAnswer(fmt.Sprint("/", i, ":"))
			continue
		}
		body := strings.Repeat("b", 100*i)
		c.send(post(fmt.Sprint("/", i), body))
		c.wantAnswer(fmt.Sprint("/", i, ":", body))
	}
	for i := range 100 { // all at once
		c.send(post(fmt.Sprint("/", i), "x"))
	}
	for i := range 100 {
		c.wantAnswer(fmt.Sprint("/", i, ":x"))
	}
}

func TestClientGoes(t *testing.T) {
	for name, c := range map[string]struct {
		sent string
		how  func(*client)
	}{
		"without a body":          {get("/"), nil},
		"with a body":             {post("/", "{}"), nil},
		"with a long body":        {post("/", strings.Repeat("b", 20_000)), nil},
		"in its direction":        {get("/"), func(c *client) { _ = c.Conn.(*net.TCPConn).CloseWrite() }},
		"after the next one":      {get("/") + get("/next"), nil},
		"after a part of one":     {get("/") + "GET /ne", nil},
		"by a reset":              {get("/"), func(c *client) { _ = c.Conn.(*net.TCPConn).SetLinger(0); c.Close() }},
		"as net/http finds":       {strings.Replace(get("/"), "GET", "PUT", 1), nil},
		"after a request":         {get("/quick") + get("/"), nil},
		"after a body of another": {post("/quick", "{}") + post("/", "{}"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, ended := make(chan struct{}, 2), make(chan struct{}, 2)
			_, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					t.Error(err)
				}
				if r.URL.Path == "/quick" {
					return
				}
				begun <- struct{}{}
				<-r.Context().Done()
				ended <- struct{}{}
			})))
			conn := dial(t, l)
			conn.send(c.sent)
			within(t, "the request is served", begun)
			if c.how != nil {
				c.how(conn)
			} else {
				conn.Close()
			}
			within(t, "the context ends", ended)
		})
	}
}

func TestClientGoesInTheBody(t *testing.T) {
	t.Parallel()
	errs := make(chan error, 1)
	_, l := listen(t, plainServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		errs <- err
	})))
	conn := dial(t, l)
	conn.send(postPart("/", "{", 2))
	conn.Close()
	if err := within(t, "the body ends", errs); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("body = %v, want an unexpected end", err)
	}
}

func TestFlush(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	_, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"", "a", "b"} {
			_, err := io.WriteString(w, part)
			if err2 := http.NewResponseController(w).Flush(); err != nil || err2 != nil {
				t.Error(err, err2)
			}
			<-more
		}
	})))
	c := dial(t, l)
	c.send(get("/"))
	resp, err := http.ReadResponse(c.from, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range "ab" {
		more <- struct{}{}
		var b [1]byte
		if n, err := resp.Body.Read(b[:]); n != 1 || rune(b[0]) != want {
			t.Errorf("read %q, %v, want %q", b[:n], err, want)
		}
	}
	more <- struct{}{}
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
		t.Errorf("rest = %q, %v", rest, err)
	}
	resp.Body.Close()
}

func TestHijack(t *testing.T) {
	for name, c := range map[string]struct{ with, early, late string }{
		"nothing before": {"", "", "hello"},
		"with the head":  {"hello", "", ""},
		"during it":      {"", "h", "ello"},
		"both":           {"he", "l", "lo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, goOn := make(chan struct{}), make(chan struct{})
			l := tap(port(t))
			of := plainServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(begun)
				<-goOn
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
					t.Errorf("Write = %v, want ErrHijacked", err)
				}
				go func() { // ends with the connection
					defer conn.Close()
					got := make([]byte, 5)
					_, err := io.ReadFull(rw, got)
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s %v", got, err)
				}()
			}))
			states := watchStates(of)
			start(t, http1.New(of), l)
			conn := dial(t, l)
			conn.send(get("/") + c.with)
			within(t, "the request is served", begun)
			if c.early != "" {
				for len(l.read) > 0 {
					<-l.read
				}
				conn.send(c.early)
				within(t, "its byte is read", l.read)
			}
			close(goOn)
			conn.send(c.late)
			conn.wantAnswer("hello <nil>")
			if got, want := states.now(), "new active hijacked"; got != want {
				t.Errorf("states = %s, want %s", got, want)
			}
		})
	}
}

// states notes the states of connections.
type states struct {
	mu   sync.Mutex
	all  []string
	ends chan struct{}
}

func watchStates(of *http.Server) *states {
	s := &states{ends: make(chan struct{}, 100)}
	before := of.ConnState
	of.ConnState = func(c net.Conn, state http.ConnState) {
		if before != nil {
			before(c, state)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, state.String())
		if state == http.StateClosed {
			s.ends <- struct{}{}
		}
	}
	return s
}

func (s *states) now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.all, " ")
}

// TestStates serves connections behind the bound of their number.
func TestStates(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"nothing":            {"", "new closed"},
		"a part of a head":   {"GET / HT", "new closed"},
		"one":                {get("/"), "new active idle closed"},
		"two":                {get("/") + get("/"), "new active idle active idle closed"},
		"an odd one":         {"PUT / HTTP/1.1\r\nHost: a\r\n\r\n", "new new active idle closed"},
		"a plain and an odd": {get("/") + "PUT / HTTP/1.1\r\nHost: a\r\n\r\n", "new active idle new active idle closed"},
		"one that is broken": {"x\r\n\r\n", "new new active closed"},
		"a panic":            {get("/panic"), "new active closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := plainServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/panic" {
					panic(http.ErrAbortHandler)
				}
			}))
			bound := limit.NewConns(10, slog.New(slog.DiscardHandler))
			of.ConnState, of.ConnContext = bound.State, limit.ConnContext
			states := watchStates(of)
			l := bound.Listener(port(t))
			start(t, http1.New(of), l)
			conn := dial(t, l)
			conn.send(c.sent)
			_ = conn.Conn.(*net.TCPConn).CloseWrite()
			if _, err := io.ReadAll(conn.from); err != nil && !errors.Is(err, net.ErrClosed) && isTimeout(err) {
				t.Fatal(err)
			}
			within(t, "the connection ends", states.ends)
			if got := states.now(); got != c.want {
				t.Errorf("states = %s, want %s", got, c.want)
			}
			if n := bound.Open(); n != 0 {
				t.Errorf("%d connections are open, want none", n)
			}
		})
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	var logged lines
	of := plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(w, "the beginning")
			_ = http.NewResponseController(w).Flush()
		}
		panic("of the " + r.URL.Path)
	}))
	of.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(&logged, nil), slog.LevelWarn)
	_, l := listen(t, of)
	first := dial(t, l)
	first.send(get("/handler") + get("/next"))
	first.wantEnd()
	second := dial(t, l)
	second.send(get("/begun"))
	resp, err := http.ReadResponse(second.from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("body = %q, complete", body)
	}
	resp.Body.Close()
	if text := logged.String(); !strings.Contains(text, "panic serving") || !strings.Contains(text, "of the /handler") || strings.Contains(text, "/next") {
		t.Errorf("log = %q", text)
	}
}

// TestStatusThatIsNone ends the connection, as net/http does.
func TestStatusThatIsNone(t *testing.T) {
	t.Parallel()
	_, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	})))
	for _, status := range []string{"0", "99", "1000", "-200"} {
		c := dial(t, l)
		c.send(get("/" + status))
		c.wantEnd()
	}
}

// TestAfterTheHandler uses a request and its response when the handler has returned, during the
// next request and later.
func TestAfterTheHandler(t *testing.T) {
	t.Parallel()
	const requests = 6
	stop, answered := make(chan struct{}), make(chan chan struct{}, requests+1)
	var late sync.WaitGroup
	_, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		over := make(chan struct{})
		answered <- over
		late.Go(func() {
			<-over
			c := http.NewResponseController(w)
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, _ = io.WriteString(w, "late")
				_ = c.Flush()
				_ = c.SetReadDeadline(time.Unix(1, 0))
				_ = c.SetWriteDeadline(time.Unix(1, 0))
				_, _, _ = c.Hijack()
				_, _ = r.Body.Read(make([]byte, 10))
				w.WriteHeader(http.StatusTeapot)
			}
		})
		_, _ = io.WriteString(w, r.URL.Path)
	})))
	c := dial(t, l)
	for i := range requests {
		c.send(post(fmt.Sprint("/", i), "{}"))
		c.wantAnswer(fmt.Sprint("/", i))
		close(<-answered)
	}
	c.send("PUT /odd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(c.from, nil)
	if err != nil || !resp.Close {
		t.Errorf("response = %+v, %v", resp, err)
	}
	close(<-answered)
	close(stop)
	late.Wait()
}

// TestBodyOfAnother returns from a handler while another goroutine reads the body.
func TestBodyOfAnother(t *testing.T) {
	t.Parallel()
	errs := make(chan error, 1)
	_, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := make(chan struct{})
		go func() {
			var b [1]byte
			_, err := io.ReadFull(r.Body, b[:])
			close(begun)
			if err == nil {
				_, err = io.ReadAll(r.Body)
			}
			errs <- err
		}()
		<-begun
		_, _ = io.WriteString(w, "done")
	})))
	c := dial(t, l)
	c.send(postPart("/", "{", 1000))
	resp, body := c.answer()
	if body != "done" || !resp.Close {
		t.Errorf("response = %q, closes %v", body, resp.Close)
	}
	if err := within(t, "the read ends", errs); err == nil {
		t.Error("the body was read to its end")
	}
	c.Close()
}

// TestLength lets handlers tell a wrong length.
func TestLength(t *testing.T) {
	t.Parallel()
	_, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		switch r.URL.Path {
		case "/much":
			_, _ = io.WriteString(w, "12345")
			if _, err := io.WriteString(w, "6"); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("Write = %v", err)
			}
		case "/at once":
			if _, err := io.WriteString(w, "123456"); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("Write = %v", err)
			}
		case "/little":
			_, _ = io.WriteString(w, "123")
		}
	})))
	for path, want := range map[string]string{"/much": "12345", "/little": "123", "/at%20once": "", "/nothing": ""} {
		c := dial(t, l)
		c.send(get(path))
		resp, err := http.ReadResponse(c.from, nil)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/much" {
			_ = c.Conn.(*net.TCPConn).CloseWrite()
		} else {
			c.send(get("/much")) // has no answer, because it could be taken for the rest
		}
		body, err := io.ReadAll(resp.Body)
		if string(body) != want || (err == nil) != (path == "/much") {
			t.Errorf("%s: body = %q, %v, want %q", path, body, err, want)
		}
		resp.Body.Close()
		c.wantEnd()
	}
}

// TestUnread leaves bodies unread, as [limit.WithoutUnread] has it.
func TestUnread(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		length int
		closes bool
	}{
		"small":      {"{}", 2, false},
		"fits":       {strings.Repeat("b", 3<<10), 3 << 10, false},
		"large":      {strings.Repeat("b", 200<<10), 200 << 10, true},
		"not sent":   {"", 2, true},
		"sent half":  {"{", 2, true},
		"not likely": {"", 1 << 40, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, l := listen(t, plainServer(limit.WithoutUnread(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "no")
			}))))
			conn := dial(t, l)
			conn.send(postPart("/", c.body, c.length))
			resp, body := conn.answer()
			if body != "no" || resp.Close != c.closes {
				t.Errorf("response = %q, closes %v, want %v", body, resp.Close, c.closes)
			}
			if c.closes {
				conn.wantEnd()
				return
			}
			conn.send(get("/"))
			conn.wantAnswer("no")
		})
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	s, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-goOn
		}
		_, _ = io.WriteString(w, r.Method)
	})))
	idle, idleOdd, slow, slowOdd, silent := dial(t, l), dial(t, l), dial(t, l), dial(t, l), dial(t, l)
	idle.send(get("/"))
	idle.wantAnswer("GET")
	idleOdd.send(strings.Replace(get("/"), "GET", "PUT", 1))
	idleOdd.wantAnswer("PUT")
	slow.send(get("/slow") + get("/never"))
	slowOdd.send(strings.Replace(get("/slow"), "GET", "PUT", 1))
	within(t, "the requests are served", begun)
	within(t, "the requests are served", begun)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v, want that of the context", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	for _, c := range []*client{idle, idleOdd, silent} {
		c.wantEnd()
	}
	select {
	case err := <-done:
		t.Fatalf("Shutdown = %v during requests", err)
	default:
	}
	close(goOn)
	for _, c := range []*client{slow, slowOdd} {
		if resp, body := c.answer(); !resp.Close || !slices.Contains([]string{"GET", "PUT"}, body) {
			t.Errorf("response = %q, closes %v", body, resp.Close)
		}
		c.wantEnd()
	}
	if err := within(t, "Shutdown returns", done); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	s, l := listen(t, plainServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	})))
	plain, odd, silent, slow := dial(t, l), dial(t, l), dial(t, l), dial(t, l)
	plain.send(get("/"))
	odd.send(strings.Replace(get("/"), "GET", "PUT", 1))
	slow.send("GET / HT")
	within(t, "the requests are served", begun)
	within(t, "the requests are served", begun)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	within(t, "the contexts end", ended)
	within(t, "the contexts end", ended)
	for _, c := range []*client{plain, odd, silent, slow} {
		c.wantEnd()
	}
	if err := s.Serve(port(t)); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve = %v, want ErrServerClosed", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}
