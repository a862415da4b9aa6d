package http1_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/proxy/http1"
)

// watches are how a server looks whether the client of a request is there: it waits for sockets,
// where the system lets it, and reads from a connection that is more than a socket.
var watches = map[string]func(net.Listener) net.Listener{
	"a socket": func(l net.Listener) net.Listener { return l },
	"read":     func(l net.Listener) net.Listener { return unlike{l} },
}

// unlike is a listener of connections that are no plain sockets.
type unlike struct{ net.Listener }

func (l unlike) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return unlikeConn{c.(*net.TCPConn)}, nil
}

type unlikeConn struct{ *net.TCPConn }

// await waits until a server watches so many requests, and so many clients have sent bytes early.
func await(t testing.TB, s *http1.Server, watched, early int) {
	t.Helper()
	for begin := time.Now(); ; {
		is, sent := s.Watched()
		if is == watched && sent == early {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("%d requests are watched and %d clients have sent bytes, want %d and %d", is, sent, watched, early)
		}
		<-time.After(time.Millisecond)
	}
}

// TestBytesOfTheNextRequest sends a part of the next request with one, and more of it while the
// handler waits: the server looks whether the client is there, by reading.
func TestBytesOfTheNextRequest(t *testing.T) {
	for how, listener := range watches {
		t.Run(how, func(t *testing.T) { testBytesOfTheNextRequest(t, listener) })
	}
}

func testBytesOfTheNextRequest(t *testing.T, listener func(net.Listener) net.Listener) {
	long := strings.Repeat("b", 6<<10)
	for name, c := range map[string]struct{ first, early, late, want string }{
		"a head in two":  {get("/slow") + "GET /sec", "o", "nd HTTP/1.1\r\nHost: gate.example\r\n\r\n", "/second:"},
		"a head and one": {get("/slow"), "G", strings.TrimPrefix(get("/second"), "G"), "/second:"},
		"a body in two":  {get("/slow") + postPart("/second", long[:10], len(long)), "b", long[11:], "/second:" + long},
		"behind a body":  {post("/slow", "{}") + "GET /sec", "o", "nd HTTP/1.1\r\nHost: gate.example\r\n\r\n", "/second:"},
		"an odd one":     {get("/slow") + "PUT /sec", "o", "nd HTTP/1.1\r\nHost: gate.example\r\n\r\n", "/second:"},
		"two of them":    {get("/slow") + get("/between") + "GET /sec", "o", "nd HTTP/1.1\r\nHost: gate.example\r\n\r\n", "/between:/second:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			taken, goOn := make(chan struct{}), make(chan struct{})
			l := listener(port(t))
			s := http1.New(plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if r.URL.Path == "/slow" {
					close(taken)
					<-goOn
					return
				}
				if _, err2 := io.WriteString(w, r.URL.Path+":"+string(body)); err != nil || err2 != nil {
					t.Error(err, err2)
				}
			})))
			start(t, s, l)
			conn := dial(t, l)
			conn.send(c.first)
			within(t, "the request is served", taken)
			await(t, s, 1, 0)
			conn.send(c.early)
			await(t, s, 0, 1)
			close(goOn)
			conn.wantAnswer("")
			conn.send(c.late)
			got := ""
			for len(got) < len(c.want) {
				_, body := conn.answer()
				got += body
			}
			if got != c.want {
				t.Errorf("answers = %.40q, want %.40q", got, c.want)
			}
		})
	}
}

// waiting serves requests that wait until they are cancelled, or until the channel stay is closed.
// It tells of each that has begun, and of each that was cancelled.
func waiting(t *testing.T, listener func(net.Listener) net.Listener, stay <-chan struct{}) (s *http1.Server, l net.Listener, begun, cancelled chan string) {
	t.Helper()
	begun, cancelled = make(chan string, 1000), make(chan string, 1000)
	l = listener(port(t))
	s = http1.New(plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- r.URL.Path
		select {
		case <-r.Context().Done():
			cancelled <- r.URL.Path
		case <-stay:
		}
		_, _ = io.WriteString(w, r.URL.Path)
	})))
	start(t, s, l)
	return s, l, begun, cancelled
}

// leaves are how a client goes.
var leaves = map[string]func(*client) error{
	"close": func(c *client) error { return c.Close() },
	"half":  func(c *client) error { return c.Conn.(*net.TCPConn).CloseWrite() },
	"reset": func(c *client) error {
		if err := c.Conn.(*net.TCPConn).SetLinger(0); err != nil {
			return err
		}
		return c.Close()
	},
}

// TestManyGo lets clients go in all ways while others stay. Each request is cancelled whose client
// goes, and only that.
func TestManyGo(t *testing.T) {
	const clients = 200
	for how, listener := range watches {
		t.Run(how, func(t *testing.T) {
			stay := make(chan struct{})
			s, l, begun, cancelled := waiting(t, listener, stay)
			all := make(map[string][]*client)
			for i := range clients {
				c, way := dial(t, l), [...]string{"close", "half", "reset", "stay"}[i%4]
				c.send(get("/" + way))
				all["/"+way] = append(all["/"+way], c)
			}
			for range clients {
				within(t, "a request has begun", begun)
			}
			await(t, s, clients, 0)
			left := clients
			for way, leave := range leaves {
				for _, c := range all["/"+way] {
					if err := leave(c); err != nil {
						t.Fatal(err)
					}
				}
				for range clients / 4 {
					if got := within(t, "a request is cancelled", cancelled); got != "/"+way {
						t.Errorf("the request %s was cancelled, want /%s", got, way)
					}
				}
				left -= clients / 4
				await(t, s, left, 0)
			}
			for _, c := range all["/half"] {
				c.wantAnswer("/half")
			}
			close(stay)
			for _, c := range all["/stay"] {
				c.wantAnswer("/stay")
				c.send(get("/stay")) // and the connection is as it was
				c.wantAnswer("/stay")
			}
			if len(cancelled) > 0 {
				t.Errorf("the request %s was cancelled as well", <-cancelled)
			}
		})
	}
}

// TestCloseWhileWaiting closes the server, whose requests are cancelled then.
func TestCloseWhileWaiting(t *testing.T) {
	for how, listener := range watches {
		t.Run(how, func(t *testing.T) {
			s, l, begun, cancelled := waiting(t, listener, nil)
			for range 3 {
				dial(t, l).send(get("/"))
				within(t, "the request has begun", begun)
			}
			await(t, s, 3, 0)
			s.Close()
			for range 3 {
				within(t, "the request is cancelled", cancelled)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReadDeadlineWhileWaiting sets a deadline of reads for a request whose client is watched: it
// ends the request, unless the client has sent something before.
func TestReadDeadlineWhileWaiting(t *testing.T) {
	for how, listener := range watches {
		for _, early := range []string{"", "G"} {
			t.Run(fmt.Sprintf("%s, %q", how, early), func(t *testing.T) {
				deadline, ends := make(chan time.Time), make(chan context.Context, 1)
				s := http1.New(plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/after" {
						return
					}
					for by := range deadline {
						if err := http.NewResponseController(w).SetReadDeadline(by); err != nil {
							t.Error(err)
						}
						ends <- r.Context()
					}
				})))
				l := listener(port(t))
				start(t, s, l)
				c := dial(t, l)
				c.send(get("/"))
				await(t, s, 1, 0)
				deadline <- time.Now().Add(time.Hour)
				ctx := <-ends
				await(t, s, 1, 0)
				if early != "" {
					c.send(early)
					await(t, s, 0, 1)
				}
				deadline <- time.Unix(1, 0)
				<-ends
				await(t, s, 0, len(early))
				if cancelled := ctx.Err() != nil; cancelled != (early == "") {
					t.Errorf("the request is cancelled: %v", cancelled)
				}
				close(deadline)
				c.wantAnswer("")
				c.send(strings.TrimPrefix(get("/after"), early))
				c.wantAnswer("")
			})
		}
	}
}
