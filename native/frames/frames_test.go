//go:build !windows

package frames_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/frames"
)

const patience = 10 * time.Second

// serve answers questions on a socket for as long as a test runs.
func serve(tb testing.TB, reply func(context.Context, []byte) ([]byte, error)) (path string, key []byte, stop func()) {
	tb.Helper()
	key = make([]byte, frames.KeySize)
	if _, err := rand.Read(key); err != nil {
		tb.Fatal(err)
	}
	path = filepath.Join(tb.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = frames.Serve(l, key, reply) })
	stop = func() {
		l.Close()
		serving.Wait()
	}
	tb.Cleanup(stop)
	return path, key, stop
}

func dial(tb testing.TB, path string, key []byte) *frames.Conn {
	tb.Helper()
	c, err := frames.Dial(tb.Context(), path, key)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func echo(_ context.Context, body []byte) ([]byte, error) { return body, nil }

// Each of many questions at once gets its own answer, in whichever order they come.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	var waiting sync.WaitGroup
	const pairs = 100
	waiting.Add(pairs)
	path, key, _ := serve(t, func(_ context.Context, body []byte) ([]byte, error) {
		if strings.HasSuffix(string(body), "odd") {
			waiting.Done()
			return nil, fmt.Errorf("no %s", body)
		}
		waiting.Wait() // for what was asked later
		return bytes.Repeat(body, 2), nil
	})
	c := dial(t, path, key)
	var all sync.WaitGroup
	for i := range pairs {
		all.Go(func() {
			want := fmt.Sprint(i, " even")
			if got, err := c.Ask(t.Context(), []byte(want)); err != nil || string(got) != want+want {
				t.Errorf("%q, %v", got, err)
			}
		})
		all.Go(func() {
			_, err := c.Ask(t.Context(), []byte(fmt.Sprint(i, " odd")))
			if f, failed := errors.AsType[frames.Failure](err); !failed || string(f) != fmt.Sprint("no ", i, " odd") {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	path, key, _ := serve(t, func(_ context.Context, body []byte) ([]byte, error) {
		if len(body) == 1 {
			body = make([]byte, frames.MaxBody+1)
		}
		return body, nil
	})
	c := dial(t, path, key)
	large := bytes.Repeat([]byte("0123456789abcdef"), frames.MaxBody/16)
	if got, err := c.Ask(t.Context(), large); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := c.Ask(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.Ask(t.Context(), []byte("x")); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
}

// A question that has ended is canceled at the other side, and the connection goes on.
func TestCancel(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan error, 1)
	path, key, _ := serve(t, func(ctx context.Context, body []byte) ([]byte, error) {
		if string(body) == "wait" {
			close(begun)
			<-ctx.Done()
			ended <- ctx.Err()
		}
		return body, nil
	})
	c := dial(t, path, key)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller has gone")
	go func() {
		<-begun
		cancel(why)
	}()
	if _, err := c.Ask(ctx, []byte("wait")); !errors.Is(err, why) {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := c.Ask(ctx, []byte("again")); !errors.Is(err, why) {
		t.Errorf("a question that had ended before: %v", err)
	}
	if got, err := c.Ask(t.Context(), []byte("next")); err != nil || string(got) != "next" {
		t.Errorf("%q, %v", got, err)
	}
}

// When a connection ends, its questions end at both sides.
func TestLost(t *testing.T) {
	t.Parallel()
	var running atomic.Int64
	path, key, stop := serve(t, func(ctx context.Context, body []byte) ([]byte, error) {
		running.Add(1)
		defer running.Add(-1)
		<-ctx.Done()
		return body, nil
	})
	ask := func(c *frames.Conn, n int) (all *sync.WaitGroup) {
		all = new(sync.WaitGroup)
		for range n {
			all.Go(func() {
				if _, err := c.Ask(t.Context(), []byte("wait")); !errors.Is(err, frames.ErrLost) {
					t.Error(err)
				}
			})
		}
		return all
	}
	first, second := dial(t, path, key), dial(t, path, key)
	asked, other := ask(first, 10), ask(second, 10)
	testwait.Until(t, patience, "all run", func() bool { return running.Load() == 20 })
	first.Close()
	asked.Wait()
	testwait.Until(t, patience, "the first ten end", func() bool { return running.Load() == 10 })
	if !first.Lost() || second.Lost() {
		t.Error("it is not said which connection is lost")
	}
	stop()
	other.Wait()
	if _, err := second.Ask(t.Context(), nil); !errors.Is(err, frames.ErrLost) {
		t.Error(err)
	}
}

// Questions beyond the bound are refused at once, and do not hurt the others.
func TestTooMany(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	path, key, _ := serve(t, func(_ context.Context, body []byte) ([]byte, error) {
		<-release
		return body, nil
	})
	c := dial(t, path, key)
	var answered, refused atomic.Int64
	var all sync.WaitGroup
	for range 1100 {
		all.Go(func() {
			switch _, err := c.Ask(t.Context(), []byte("q")); {
			case err == nil:
				answered.Add(1)
			case errors.Is(err, frames.ErrTooMany):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	testwait.Until(t, patience, "the rest is refused", func() bool { return refused.Load() == 76 })
	close(release)
	all.Wait()
	if answered.Load() != 1024 {
		t.Errorf("%d are answered", answered.Load())
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	path, key, _ := serve(t, echo)
	for at := range 2 { // either half
		wrong := bytes.Clone(key)
		wrong[at*frames.KeySize/2] ^= 1
		if c, err := frames.Dial(t.Context(), path, wrong); err == nil {
			c.Close()
			t.Errorf("connected with a wrong half %d", at)
		}
	}
	if _, err := frames.Dial(t.Context(), path+"x", key); err == nil {
		t.Error("connected to nothing")
	}
}

// raw connects and proves the key by hand.
func raw(tb testing.TB, path string, key []byte) net.Conn {
	tb.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	if _, err := c.Write(key[:frames.KeySize/2]); err != nil {
		tb.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		tb.Fatal(err)
	}
	if _, err := c.Read(make([]byte, frames.KeySize/2)); err != nil {
		tb.Fatal(err)
	}
	return c
}

// A question ends in its time though the other side has stopped to read. One of which nothing
// was written leaves the connection to the others.
func TestStalled(t *testing.T) {
	t.Parallel()
	key := make([]byte, frames.KeySize)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var greeting sync.WaitGroup
	defer greeting.Wait()
	greeting.Go(func() { // and reads nothing more
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.Read(make([]byte, frames.KeySize/2)); err != nil {
			t.Error(err)
		}
		if _, err := c.Write(key[frames.KeySize/2:]); err != nil {
			t.Error(err)
		}
	})
	c := dial(t, path, key)
	ask := func(size int) time.Duration {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := c.Ask(ctx, make([]byte, size)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		return time.Since(began)
	}
	if ask(10); c.Lost() {
		t.Error("a question without an answer ends the connection")
	}
	if took := ask(1 << 20); took > 900*time.Millisecond {
		t.Errorf("took %v", took)
	}
	testwait.Until(t, patience, "the connection ends, on which there is half a frame", c.Lost)
}

// What is no frame ends its connection, and no other.
func TestNoFrames(t *testing.T) {
	t.Parallel()
	path, key, _ := serve(t, echo)
	good := dial(t, path, key)
	for name, text := range map[string]string{
		"short": "\x00\x00\x00\x08", "long": "\xff\xff\xff\xff\x01", "kind": "\x00\x00\x00\x09\x07", "an answer": "\x00\x00\x00\x09\x02",
	} {
		c := raw(t, path, key)
		if _, err := c.Write(append([]byte(text), make([]byte, 9)...)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: answered with %d bytes", name, n)
		}
		if got, err := good.Ask(t.Context(), []byte(name)); err != nil || string(got) != name {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// FuzzServe sends anything to the side of the plugin, which answers the questions of it and
// ends.
func FuzzServe(f *testing.F) {
	question := func(kind byte, id uint64, body string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(9+len(body)))
		return append(binary.BigEndian.AppendUint64(append(b, kind), id), body...)
	}
	f.Add(question(1, 7, "hello"))
	f.Add(append(question(1, 7, "hello"), question(4, 7, "")...))
	f.Add(append(question(1, 7, ""), question(1, 7, "twice")...))
	f.Add([]byte("\x00\x00\x00\x09"))
	path, key, _ := serve(f, echo)
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := raw(t, path, key)
		if _, err := c.Write(sent); err != nil {
			return // it ended before it had all
		}
		if err := c.(*net.UnixConn).CloseWrite(); err != nil {
			return
		}
		var got bytes.Buffer
		_, _ = got.ReadFrom(c) // to its end
		if got.Len() > len(sent)+64*(1+len(sent)/13) {
			t.Errorf("%d bytes are answered to %d", got.Len(), len(sent))
		}
	})
}

// FuzzAsk answers anything to the side of the gateway, which has an answer or an error.
func FuzzAsk(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0a\x02\x00\x00\x00\x00\x00\x00\x00\x01x"))
	f.Add([]byte("\x00\x00\x00\x0a\x03\x00\x00\x00\x00\x00\x00\x00\x01x"))
	f.Add([]byte("\x00\x00\x00\x09\x01\x00\x00\x00\x00\x00\x00\x00\x01"))
	key := make([]byte, frames.KeySize)
	f.Fuzz(func(t *testing.T, sent []byte) {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var serving sync.WaitGroup
		serving.Go(func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Write(append(bytes.Clone(key[frames.KeySize/2:]), sent...))
			_, _ = c.Read(make([]byte, frames.KeySize))
		})
		c, err := frames.Dial(t.Context(), path, key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Ask(t.Context(), []byte("q")); err != nil && !errors.Is(err, frames.ErrLost) {
			if _, failed := errors.AsType[frames.Failure](err); !failed {
				t.Error(err)
			}
		}
		c.Close()
		serving.Wait()
	})
}
