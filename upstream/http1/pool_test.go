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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/idleread"
)

// newPool returns a pool as the upstream has it, and counts its connections.
func newPool(t *testing.T) (*Pool, *atomic.Int32) {
	t.Helper()
	if !checked {
		t.Log("net/http takes every request on this system")
	}
	var dialed atomic.Int32
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	p := NewPool(&http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Add(1)
			return dialer.DialContext(ctx, network, address)
		},
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 256 << 10, DisableCompression: true,
	})
	t.Cleanup(p.CloseIdleConnections)
	return p, &dialed
}

// post sends a text and returns the answer to it.
func post(ctx context.Context, p *Pool, to, text string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(text))
	if err != nil {
		return "", err
	}
	resp, err := p.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// echo answers with what it got, in one piece or in chunks.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if r.URL.Query().Has("chunks") {
		for piece := range strings.SplitSeq(string(body), " ") {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
		return
	}
	_, _ = w.Write(body)
}

// One connection carries one exchange after the other, whatever the answers look like.
func TestConnectionIsKept(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	p, dialed := newPool(t)
	keepsConnection(t, p, dialed, server.URL)
}

// keepsConnection has texts echoed in many ways over one connection.
func keepsConnection(t *testing.T, p *Pool, dialed *atomic.Int32, url string) {
	t.Helper()
	for i := range 20 {
		text := strings.Repeat("abcdefg ", 1+i*400)
		want, to := text, url
		if i%2 > 0 {
			want, to = strings.ReplaceAll(text, " ", ""), url+"/?chunks"
		}
		if got, err := post(t.Context(), p, to, text); got != want || err != nil {
			t.Fatalf("%d: got %.40q, %v", i, got, err)
		}
	}
	if n := dialed.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// What is sent is what net/http would send.
func TestSentAsNetHTTP(t *testing.T) {
	t.Parallel()
	type seen struct {
		uri, host, body string
		header          http.Header
		length          int64
	}
	got := make(chan seen, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.RequestURI, r.Host, string(body), r.Header, r.ContentLength}
	}))
	t.Cleanup(server.Close)
	p, dialed := newPool(t)
	for _, path := range []string{"", "/", "/mcp?a=b%20c&d", "/%2F%20x", "//double"} {
		var both [2]seen
		for i, over := range []http.RoundTripper{p, p.other} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Accept": {"a", "b"}, "Mcp-Session-Id": {" x "}, "Empty": {""}, "Authorization": {"Bearer t"}}
			resp, err := over.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			both[i] = <-got
		}
		if mine, theirs := both[0], both[1]; mine.uri != theirs.uri || mine.host != theirs.host || mine.body != theirs.body ||
			mine.length != theirs.length || !sameHeader(mine.header, theirs.header) {
			t.Errorf("%q:\n sent %+v\nnet/http sends %+v", path, mine, theirs)
		}
	}
	if dialed.Load() != 2 {
		t.Errorf("%d connections: one of them is not of this package", dialed.Load())
	}
}

func sameHeader(a, b http.Header) bool {
	var texts [2]strings.Builder
	_, _ = a.Write(&texts[0]), b.Write(&texts[1]) // sorted
	return texts[0].String() == texts[1].String()
}

// raw is a server that a test writes by hand: handle has one connection.
func raw(t *testing.T, handle func(n int, c net.Conn, in *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				handle(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// readRequest reads a request; false is the end of the connection.
func readRequest(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// A server may close a connection that carries nothing. The next request goes over another
// one, and nothing is sent twice.
func TestServerClosesIdleConnection(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	var requests atomic.Int32
	to := raw(t, func(n int, c net.Conn, in *bufio.Reader) {
		for readRequest(in) {
			requests.Add(1)
			_, _ = io.WriteString(c, answer)
			if n == 0 {
				c.Close()
				close(closed)
				return
			}
		}
	})
	p, dialed := newPool(t)
	for i := range 3 {
		if got, err := post(t.Context(), p, to, "{}"); got != "ok" || err != nil {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
		<-closed
	}
	if dialed.Load() != 2 || requests.Load() != 3 {
		t.Errorf("%d connections, %d requests", dialed.Load(), requests.Load())
	}
}

// deaf is a connection that the server has closed since it was looked at: nothing can be
// written.
type deaf struct{ *net.TCPConn }

func (deaf) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A request of which nothing could be sent is sent over another connection; one of which a
// part was sent is not.
func TestNothingSent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	p, dialed := newPool(t)
	if _, err := post(t.Context(), p, server.URL, "one"); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.idle[0].net = deaf{p.idle[0].net.(*net.TCPConn)}
	p.mu.Unlock()
	if got, err := post(t.Context(), p, server.URL, "two"); got != "two" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if dialed.Load() != 2 {
		t.Errorf("%d connections", dialed.Load())
	}
}

// A server that ends the connection instead of an answer has perhaps run the request: it is
// not sent again.
func TestEndInsteadOfAnswer(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	to := raw(t, func(_ int, c net.Conn, in *bufio.Reader) {
		for i := 0; readRequest(in); i++ {
			requests.Add(1)
			if i > 0 {
				return
			}
			_, _ = io.WriteString(c, answer)
		}
	})
	p, _ := newPool(t)
	if _, err := post(t.Context(), p, to, "{}"); err != nil {
		t.Fatal(err)
	}
	if got, err := post(t.Context(), p, to, "{}"); err == nil {
		t.Errorf("answered with %q", got)
	}
	if requests.Load() != 2 {
		t.Errorf("%d requests", requests.Load())
	}
}

// A connection is not used again after an answer that is followed by more, after one that
// ends it, and after a body that was not read.
func TestConnectionIsNotKept(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"more":          answer + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsmuggl",
		"close":         "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"no body":       "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nsmuggled",
		"odd":           "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
		"more chunks":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nsmuggled",
		"odd chunks":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nok\r\n0\r\n\r\n",
		"trailers":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n",
		"broken chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\nx",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := raw(t, func(n int, c net.Conn, in *bufio.Reader) {
				for readRequest(in) {
					if n > 0 {
						_, _ = io.WriteString(c, answer)
						continue
					}
					_, _ = io.WriteString(c, text)
				}
			})
			p, dialed := newPool(t)
			for range 2 {
				got, err := post(t.Context(), p, to, "{}")
				if strings.Contains(got, "smuggl") || err != nil && name != "broken chunks" {
					t.Errorf("%q, %v", got, err)
				}
			}
			if dialed.Load() != 2 {
				t.Errorf("%d connections", dialed.Load())
			}
		})
	}
	t.Run("unread", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(echo))
		t.Cleanup(server.Close)
		p, dialed := newPool(t)
		for range 2 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("text"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := p.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
				t.Error("a closed body was read")
			}
		}
		if dialed.Load() != 2 {
			t.Errorf("%d connections", dialed.Load())
		}
	})
}

// The end of the context ends a request wherever it is, and its connection.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"before the answer": "", "in the head": "HTTP/1.1 200 OK\r\nContent-", "in the body": answer[:len(answer)-1],
		"in a chunk":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",
		"between chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
		"in odd chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;\r\nok\r\n",
		"in an odd body": "HTTP/1.0 200 OK\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			to := raw(t, func(_ int, c net.Conn, in *bufio.Reader) {
				readRequest(in)
				_, _ = io.WriteString(c, text)
				cancel()
				_, _ = in.ReadByte() // until the other side closes
				close(gone)
			})
			p, _ := newPool(t)
			if got, err := post(ctx, p, to, "{}"); !errors.Is(err, context.Canceled) {
				t.Errorf("%q, %v", got, err)
			}
			<-gone
			if p.pop(strings.TrimPrefix(to, "http://")) != nil {
				t.Error("the connection is kept")
			}
		})
	}
}

// A body that is closed beside a read ends the read.
func TestCloseBesideRead(t *testing.T) {
	t.Parallel()
	to := raw(t, func(_ int, c net.Conn, in *bufio.Reader) {
		readRequest(in)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
		_, _ = in.ReadByte()
	})
	p, _ := newPool(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(resp.Body)
		read <- err
	}()
	resp.Body.Close()
	if err := <-read; err == nil {
		t.Error("the read ended as if the body had")
	}
}

// A server may answer before it has read a request. The answer is there, or the error of the
// connection; nobody waits.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	to := raw(t, func(_ int, c net.Conn, in *bufio.Reader) {
		_, _ = in.ReadByte()
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
	})
	p, _ := newPool(t)
	for range 20 {
		if got, err := post(t.Context(), p, to, strings.Repeat("x", maxBody)); got != "no" && err == nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// The heads behind interim answers are bounded as the first one is.
func TestEndlessHead(t *testing.T) {
	t.Parallel()
	to := raw(t, func(_ int, c net.Conn, in *bufio.Reader) {
		readRequest(in)
		_, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX: ")
		for text := strings.Repeat("x", 32<<10); err == nil; {
			_, err = io.WriteString(c, text)
		}
	})
	p, _ := newPool(t)
	if _, err := post(t.Context(), p, to, "{}"); err == nil || !strings.Contains(err.Error(), "headers exceeded") {
		t.Errorf("got %v", err)
	}
}

// An exchange that ends after the idle connections were closed leaves no connection behind.
func TestCloseIdleConnections(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	p, dialed := newPool(t)
	body := begun(t, p, server.URL, 1)
	p.CloseIdleConnections()
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := post(t.Context(), p, server.URL, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	if dialed.Load() != 2 {
		t.Errorf("%d connections", dialed.Load())
	}
}

// Idle connections end by themselves, and are bounded.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var closed int
		p := &Pool{other: &http.Transport{}, most: 3, rest: time.Minute}
		for range 5 {
			p.put(&conn{pool: p, net: counted{closed: &closed}})
			time.Sleep(10 * time.Second)
		}
		want := func(kept, ended int) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.idle) != kept || closed != ended {
				t.Errorf("%d are kept and %d closed, want %d and %d", len(p.idle), closed, kept, ended)
			}
		}
		want(3, 2)
		time.Sleep(35 * time.Second) // 85 s after the first one came, 65 s after the third
		want(0, 5)
		p.put(&conn{pool: p, net: counted{closed: &closed}})
		waits := &conn{pool: p, net: counted{closed: &closed}, buf: new(idleread.Buffer)}
		waits.rest = &body{conn: waits, chunked: true}
		p.put(waits)
		want(2, 5)
		time.Sleep(restTime) // the end of its answer does not come
		want(1, 6)
		p.CloseIdleConnections()
		want(0, 7)
		p.put(&conn{pool: p, net: counted{closed: &closed}}) // was under way
		want(0, 8)
	})
}

type counted struct {
	net.Conn
	closed *int
}

func (c counted) Close() error { *c.closed++; return nil }

// Many callers at once, some of which give up, each get the answer to their own request.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	p, _ := newPool(t)
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			for i := range 100 {
				text := strconv.Itoa(caller) + "/" + strconv.Itoa(i)
				ctx, cancel := context.WithCancel(t.Context())
				if i%7 == 0 {
					go func() { runtime.Gosched(); cancel() }()
				}
				got, err := post(ctx, p, server.URL+[]string{"", "/?chunks"}[i%2], text)
				cancel()
				if got != text && err == nil || err != nil && i%7 != 0 {
					t.Errorf("%s: got %q, %v", text, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// What does not fit goes to net/http, over its own connections.
func TestOthers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	p, _ := newPool(t)
	big := strings.Repeat("x", maxBody+1)
	if got, err := post(t.Context(), p, server.URL, big); got != big || err != nil {
		t.Errorf("a large body: %d bytes, %v", len(got), err)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost} {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := p.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		resp.Body.Close()
	}
	if p.pop(strings.TrimPrefix(server.URL, "http://")) != nil {
		t.Error("they used a connection of this package")
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(echo)}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { server.Close() })
	other := &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 256 << 10,
	}
	for name, over := range map[string]http.RoundTripper{"own": NewPool(other), "nethttp": other} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for b.Loop() {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr().String(), strings.NewReader("{}"))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := over.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
