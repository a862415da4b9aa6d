package http1_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// cancelled serves with a handler, and returns what comes when the context of its request has
// ended after it.
func cancelled(t *testing.T, serve func(w http.ResponseWriter, r *http.Request) error) (*client, <-chan error) {
	t.Helper()
	ended := make(chan error, 1)
	_, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := serve(w, r)
		<-r.Context().Done() // or the test ends by its time
		ended <- err
	})))
	return dial(t, l), ended
}

// A client that takes nothing any more ends its request, although it has not gone.
func TestStalledClient(t *testing.T) {
	c, ended := cancelled(t, func(w http.ResponseWriter, _ *http.Request) error {
		rc, some := http.NewResponseController(w), make([]byte, 1<<20)
		for {
			if err := rc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
				return err
			}
			if _, err := w.Write(some); err != nil {
				return err
			}
		}
	})
	c.send(get("/"))
	if err := within(t, "the end of the request", ended); !isTimeout(err) {
		t.Errorf("the write failed with %v", err)
	}
}

// Nobody watches for the end of a client that has sent a part of its next request: the writes of
// its handler find out.
func TestGoneAfterEarlyByte(t *testing.T) {
	begun, gone := make(chan struct{}), make(chan struct{})
	c, ended := cancelled(t, func(w http.ResponseWriter, _ *http.Request) error {
		close(begun)
		<-gone
		for {
			_, err := w.Write([]byte(":\n\n"))
			if err = errors.Join(err, http.NewResponseController(w).Flush()); err != nil {
				return err
			}
		}
	})
	c.send(get("/"))
	within(t, "the request", begun)
	c.send("\n")
	c.Close()
	close(gone)
	if err := within(t, "the end of the request", ended); err == nil {
		t.Error("no write has failed")
	}
}

// A body that breaks off ends its request.
func TestBodyBreaksOff(t *testing.T) {
	begun := make(chan struct{})
	c, ended := cancelled(t, func(_ http.ResponseWriter, r *http.Request) error {
		close(begun)
		_, err := io.ReadAll(r.Body)
		return err
	})
	c.send(postPart("/", "{}", 10))
	within(t, "the request", begun)
	c.Close()
	if err := within(t, "the end of the request", ended); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the body ended with %v", err)
	}
}

// A connection with a part of a head does not hold up the end of the server.
func TestShutdownWithPartOfAHead(t *testing.T) {
	s, l := listen(t, plainServer(http.HandlerFunc(echo)))
	c := dial(t, l)
	c.send(post("/", "a"))
	c.answer()
	c.send("G")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	c.wantEnd()
}

// The context of a request ends with its handler, before the response is sent.
func TestContextEndsWithTheHandler(t *testing.T) {
	contexts := make(chan context.Context, 1)
	_, l := listen(t, plainServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { contexts <- r.Context() })))
	c := dial(t, l)
	c.send(postPart("/", "{}", 1000)) // which is still read for a while
	c.answer()
	if ctx := <-contexts; ctx.Err() == nil {
		t.Error("the context has not ended")
	}
}
