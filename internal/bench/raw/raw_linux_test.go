package raw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// teller asks for a number and expects it back.
type teller struct{ last int }

func (c *teller) Request(out []byte) []byte {
	c.last++
	body := strconv.Itoa(c.last)
	return fmt.Appendf(out, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func (c *teller) Check(f *Frame) error {
	if want := strings.Repeat(strconv.Itoa(c.last)+" ", 10_000); f.Status() != 200 || string(f.Body) != want {
		return fmt.Errorf("%d, %d bytes", f.Status(), len(f.Body))
	}
	return nil
}

// telling answers like a server of the standard library.
func telling(wrong int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		n, _ := strconv.Atoi(string(b))
		text := strings.Repeat(string(b)+" ", 10_000)
		if n%2 == 0 {
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		}
		if n == wrong {
			panic(http.ErrAbortHandler)
		}
		for len(text) > 0 {
			part := min(len(text), 7000)
			_, _ = io.WriteString(w, text[:part])
			text = text[part:]
		}
	}
}

func loadOf(t *testing.T, address string, n int) *Load {
	t.Helper()
	var all []Caller
	for range n {
		all = append(all, &teller{})
	}
	l, err := NewLoad(t.Context(), address, all...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestLoad(t *testing.T) {
	s := httptest.NewServer(telling(0))
	defer s.Close()
	l := loadOf(t, s.Listener.Addr().String(), 4)
	for _, run := range []Run{{Count: 100, Most: time.Minute}, {Count: 50, Rate: 5000, Most: time.Minute}} {
		f, err := l.Run(t.Context(), run)
		if err != nil || f.Done != run.Count || f.P50 <= 0 || f.P99 < f.P50 {
			t.Errorf("%+v, %v", f, err)
		}
		if run.Rate > 0 && f.Took < 9*time.Millisecond {
			t.Errorf("50 calls at 5,000 a second took %v", f.Took)
		}
	}
	if f, err := l.Run(t.Context(), Run{Count: 10}); err != nil || f.Done != 0 {
		t.Errorf("without time: %+v, %v", f, err)
	}
}

func TestLoadThatFails(t *testing.T) {
	s := httptest.NewServer(telling(5))
	defer s.Close()
	if f, err := loadOf(t, s.Listener.Addr().String(), 1).Run(t.Context(), Run{Count: 10, Most: time.Minute}); err == nil || f.Done != 4 {
		t.Errorf("%+v, %v", f, err)
	}
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "1") }))
	defer wrong.Close()
	if _, err := loadOf(t, wrong.Listener.Addr().String(), 1).Run(t.Context(), Run{Count: 1, Most: time.Minute}); err == nil {
		t.Error("a wrong answer is right")
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel(); <-asked }))
	defer silent.Close()
	defer close(asked)
	if _, err := loadOf(t, silent.Listener.Addr().String(), 1).Run(ctx, Run{Count: 1, Most: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("a silent server: %v", err)
	}
	if _, err := NewLoad(t.Context(), "127.0.0.1:1", &teller{}); err == nil {
		t.Error("nobody listens, and it is connected")
	}
}

// serving runs a server with two addresses until the test ends.
func serving(t *testing.T, answer Answer) (addresses []string) {
	t.Helper()
	var all []*net.TCPListener
	for range 2 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		all, addresses = append(all, l.(*net.TCPListener)), append(addresses, l.Addr().String())
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, answer, all...) }() // ends with stop
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, l := range all {
			l.Close()
		}
	})
	return addresses
}

func TestServe(t *testing.T) {
	addresses := serving(t, func(r *Frame, out []byte) []byte {
		body := strings.Repeat(string(r.Body)+" ", 10_000)
		return fmt.Appendf(out, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
	for _, address := range addresses {
		if f, err := loadOf(t, address, 8).Run(t.Context(), Run{Count: 400, Most: time.Minute}); err != nil || f.Done != 400 {
			t.Errorf("%+v, %v", f, err)
		}
	}
	address := addresses[0]
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, text := range []string{"a", "b"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, strings.NewReader(text))
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != strings.Repeat(text+" ", 10_000) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, strings.NewReader("a"))
	r.Header.Set("X", strings.Repeat("x", maxHead))
	if resp, err := client.Do(r); err == nil {
		resp.Body.Close()
		t.Error("an endless head is answered")
	}
}
