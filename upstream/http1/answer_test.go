package http1

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Requests whose memory, and that of their answers, is used again get what belongs to them, while
// others keep theirs, or leave a body unread.
func TestReleasedAnswersAreSeparate(t *testing.T) {
	const workers, each = 8, 100
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Text", string(text))
		if len(text)%2 == 0 {
			w.Header().Set("X-Even", "yes")
		}
		_, _ = w.Write(bytes.Repeat(text, 3))
	}))
	defer server.Close()
	p, _ := newPool(t)
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			var kept []func()
			for i := range each {
				text := fmt.Sprintf("%d of %d", i, worker)
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(text))
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := p.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				if Release(resp) {
					t.Error("an answer was released that is not read")
				}
				check := func() {
					even := len(text)%2 == 0
					if got := resp.Header["X-Text"]; len(got) != 1 || got[0] != text || (resp.Header["X-Even"] != nil) != even || resp.Request != r {
						t.Errorf("%q was answered with %v", text, resp.Header)
					}
				}
				if i%5 == 1 {
					check()
					resp.Body.Close()
					if Release(resp) {
						t.Error("an answer was released that was not read")
					}
					kept = append(kept, check)
					continue
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil || string(body) != strings.Repeat(text, 3) {
					t.Errorf("%q was answered with %q, %v", text, body, err)
				}
				check()
				resp.Body.Close()
				if i%5 == 2 {
					kept = append(kept, check)
				} else if Release(resp) != checked {
					t.Error("an answer that was read is not released, or one of net/http is")
				}
			}
			for _, check := range kept {
				check()
			}
		})
	}
	all.Wait()
}

// What was released is zero but for memory.
func TestReleasedAnswersAreZero(t *testing.T) {
	a := spare.New().(*received)
	if _, ok := parseHead([]byte("HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 0\r\n\r\n"), &a.fields); !ok {
		t.Fatal("not plain")
	}
	a.response = http.Response{StatusCode: http.StatusOK, Body: &a.body, Request: new(http.Request)}
	a.body = body{err: io.EOF, left: 1, chunked: true, of: a}
	a.body.over.Store(true)
	a.clear()
	if a.response.Body != nil || a.response.Request != nil || a.body.err != nil || a.body.left != 0 || a.body.chunked || a.body.over.Load() || a.body.of != a {
		t.Errorf("%+v, %+v", a.response, &a.body)
	}
	if h, ok := a.fields.Parse("C: d\r\n\r\n", func(string, string) (bool, bool) { return true, true }); !ok || len(h) != 1 {
		t.Errorf("then %v", h)
	}
	for _, other := range []*http.Response{{Body: http.NoBody}, {Body: &a.body}} {
		if Release(other) {
			t.Error("released what is not of a pool")
		}
	}
}
