package stream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// serveTaken serves one response on a connection that was taken. taken gets it, or nil.
func serveTaken(t *testing.T, serve func(c *Conn)) (url string, taken <-chan *Conn) {
	t.Helper()
	got := make(chan *Conn, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		c := Take(w, r, time.Minute)
		if c != nil {
			go serve(c) // ends with the connection
		}
		got <- c
	}))
	t.Cleanup(web.Close)
	return web.URL, got
}

// A response on a connection that was taken goes on after its handler, and arrives as any other.
func TestTakenConnection(t *testing.T) {
	more := make(chan struct{})
	url, taken := serveTaken(t, func(c *Conn) {
		ok := c.Send(time.Minute, []byte("one "), []byte("two\n")) && c.Send(time.Minute) && c.Send(time.Minute, nil)
		<-more
		if !ok || !c.Send(time.Minute, []byte(strings.Repeat("x", 100_000))) || c.Close(time.Minute) != nil {
			t.Error("it is not written")
		}
	})
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if <-taken == nil {
		t.Fatal("the connection is not taken")
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Date") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	body := bufio.NewReader(resp.Body)
	if line, err := body.ReadString('\n'); line != "one two\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	close(more)
	if rest, err := io.ReadAll(body); len(rest) != 100_000 || err != nil {
		t.Errorf("%d bytes more: %v", len(rest), err)
	}
}

// A client that leaves is noticed without a write, and one that sends more is not taken for one
// that has left.
func TestTakenConnectionIsGone(t *testing.T) {
	url, taken := serveTaken(t, func(*Conn) {})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	c := <-taken
	select {
	case <-c.Gone():
		t.Error("the client is there")
	default:
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	<-c.Gone()
	if err := c.Close(time.Minute); err != nil {
		t.Error(err)
	}
	if c.Send(time.Minute, []byte("x")) {
		t.Error("a closed connection takes something")
	}
}

// HTTP/1.0 knows no chunks.
func TestOldConnectionIsNotTaken(t *testing.T) {
	url, taken := serveTaken(t, func(*Conn) {})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if <-taken != nil {
		t.Error("it is taken")
	}
}

// A request with a body stays with its server, which has to read it.
func TestTakesNoRequestWithABody(t *testing.T) {
	url, taken := serveTaken(t, func(*Conn) {})
	for _, body := range []io.Reader{strings.NewReader("{}"), io.MultiReader(strings.NewReader("{}"))} { // with a length, and in chunks
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if <-taken != nil {
			t.Error("the connection is taken")
		}
	}
}

// Whoever reads nothing holds up nobody for longer than End allows, and after a part of a chunk
// nothing follows.
func TestTakenConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := &Conn{conn: ours, gone: make(chan struct{})}
		sent := make(chan bool, 1)
		began := time.Now()
		go func() { sent <- c.Send(time.Hour, []byte("a message")) }()
		time.Sleep(time.Second)
		c.End(5 * time.Second)
		if <-sent || time.Since(began) != 6*time.Second {
			t.Errorf("sent after %v", time.Since(began))
		}
		if c.Send(time.Hour, []byte("another")) {
			t.Error("something follows a part of a chunk")
		}
		read := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(theirs)
			read <- all
		}()
		if err := c.Close(time.Hour); err != nil {
			t.Error(err)
		}
		if got := <-read; len(got) > 0 || time.Since(began) != 6*time.Second {
			t.Errorf("%q follows after %v", got, time.Since(began))
		}
	})
}
