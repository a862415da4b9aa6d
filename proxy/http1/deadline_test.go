package http1_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/proxy/http1"
	"github.com/toolgate/toolgate/proxy/limit"
)

const (
	headTime = 10 * time.Second
	bodyTime = 20 * time.Second
	idleTime = 80 * time.Second
)

// inBubble serves one connection, whose end of the client is given to a function. Writes of
// both ends wait for who reads.
func inBubble(t *testing.T, h http.Handler, use func(t *testing.T, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		of := plainServer(h)
		of.ReadHeaderTimeout, of.ReadTimeout, of.IdleTimeout = headTime, bodyTime, idleTime
		l, s := newConns(), http1.New(of)
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		ours, theirs := net.Pipe()
		l.made <- theirs
		use(t, &client{Conn: ours, t: t, from: bufio.NewReader(ours)})
		ours.Close()
		s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve = %v, want ErrServerClosed", err)
		}
		time.Sleep(time.Minute) // the goroutines of use end
	})
}

// wantEndAfter waits for the end of the connection, and looks at the clock.
func (c *client) wantEndAfter(begin time.Time, least, most time.Duration) {
	c.t.Helper()
	c.wantEnd()
	if took := time.Since(begin); took < least || took > most {
		c.t.Errorf("the connection ended after %v, want %v to %v", took, least, most)
	}
}

func TestSlowHead(t *testing.T) {
	inBubble(t, http.HandlerFunc(echo), func(_ *testing.T, c *client) {
		begin := time.Now()
		c.wantEndAfter(begin, headTime, headTime) // without a byte
	})
	for _, before := range []string{"", get("/")} {
		inBubble(t, http.HandlerFunc(echo), func(_ *testing.T, c *client) {
			if before != "" {
				c.send(before)
				c.wantAnswer("/:")
			}
			begin := time.Now()
			go func() { // ends with the connection
				for _, b := range get("/" + strings.Repeat("x", 100)) {
					if _, err := io.WriteString(c, string(b)); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			c.wantEndAfter(begin, headTime, headTime)
		})
	}
}

func TestIdle(t *testing.T) {
	inBubble(t, http.HandlerFunc(echo), func(_ *testing.T, c *client) {
		for range 20 { // longer than any of the times
			c.send(get("/"))
			c.wantAnswer("/:")
			time.Sleep(idleTime / 2)
		}
		c.send(post("/", "{}"))
		c.wantAnswer("/:{}")
		begin := time.Now()
		c.wantEndAfter(begin, idleTime-idleTime/8, idleTime)
	})
}

// TestLongHandler waits longer than any deadline of a server, and answers.
func TestLongHandler(t *testing.T) {
	inBubble(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		time.Sleep(10 * time.Minute)
		if err != nil || r.Context().Err() != nil {
			t.Error(err, r.Context().Err())
		}
		_, _ = w.Write(body)
	}), func(_ *testing.T, c *client) {
		for range 3 {
			c.send(post("/", "{}"))
			c.wantAnswer("{}")
			c.send(get("/"))
			c.wantAnswer("")
		}
	})
}

func TestSlowBody(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"plain": func(h http.Handler) http.Handler { return h }, "without unread": limit.WithoutUnread,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("body = %v, want the deadline", err)
				}
				w.WriteHeader(http.StatusRequestTimeout)
			})), func(t *testing.T, c *client) {
				begin := time.Now()
				c.send(postPart("/", "{", 100))
				go func() { // ends with the connection
					for range 99 {
						if _, err := io.WriteString(c, "x"); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				}()
				if resp, _ := c.answer(); resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
					t.Errorf("response = %d, closes %v", resp.StatusCode, resp.Close)
				}
				c.wantEndAfter(begin, bodyTime, bodyTime+time.Second)
			})
		})
	}
}

// TestClientDoesNotRead ends writes: after the time that the handler says, or that of the server.
func TestClientDoesNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*http.ResponseController) error
		after time.Duration
	}{
		"the server's time": {func(*http.ResponseController) error { return nil }, 30 * time.Second},
		"the handler's":     {func(c *http.ResponseController) error { return c.SetWriteDeadline(time.Now().Add(time.Second)) }, time.Second},
		"during the write": {func(c *http.ResponseController) error {
			time.AfterFunc(2*time.Second, func() { _ = c.SetWriteDeadline(time.Now()) })
			return nil
		}, 2 * time.Second},
		"later than the server's": {func(c *http.ResponseController) error {
			return c.SetWriteDeadline(time.Now().Add(time.Hour))
		}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/first" {
					return // its deadline is not that of the next response
				}
				begin := time.Now()
				if err := c.set(http.NewResponseController(w)); err != nil {
					t.Error(err)
				}
				_, err := w.Write(make([]byte, 100_000))
				if took := time.Since(begin); !errors.Is(err, os.ErrDeadlineExceeded) || took < c.after-c.after/8 || took > c.after {
					t.Errorf("Write = %v after %v, want the deadline after %v", err, took, c.after)
				}
				if _, err := w.Write(nil); err == nil {
					t.Error("a later Write has no error")
				}
			}), func(_ *testing.T, conn *client) {
				conn.send(get("/first"))
				conn.wantAnswer("")
				conn.send(get("/"))
				time.Sleep(2 * time.Hour)
				conn.wantEnd()
			})
		})
	}
}

// TestDeadlinesOfHandlers lets a handler set deadlines, and looks whether they hold for what is
// not its own.
func TestDeadlinesOfHandlers(t *testing.T) {
	inBubble(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.URL.Path == "/short" {
			err, err2 := c.SetReadDeadline(time.Now().Add(time.Second)), c.SetWriteDeadline(time.Now().Add(time.Second))
			if err != nil || err2 != nil {
				t.Error(err, err2)
			}
			return
		}
		if r.URL.Path == "/read" {
			if err := c.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
				t.Error(err)
			}
			begin := time.Now()
			_, err := io.ReadAll(r.Body)
			if took := time.Since(begin); !errors.Is(err, os.ErrDeadlineExceeded) || took != 3*time.Second {
				t.Errorf("body = %v after %v", err, took)
			}
		}
	}), func(_ *testing.T, c *client) {
		for range 3 {
			c.send(get("/short"))
			c.wantAnswer("")
			time.Sleep(5 * time.Second)
			c.send(get("/"))
			c.wantAnswer("")
		}
		c.send(postPart("/read", "{", 2))
		c.answer()
		c.wantEnd()
	})
}
