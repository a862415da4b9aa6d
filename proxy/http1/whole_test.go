package http1_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// whole is what the responses of this package have besides those of net/http.
type whole interface {
	WriteWhole(status int, contentType string, parts ...[]byte) error
}

// TestWriteWholeWithoutBody has the next response begin where a response ends that can have no body.
func TestWriteWholeWithoutBody(t *testing.T) {
	_, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNoContent
		if r.URL.Path == "/whole" {
			status = http.StatusOK
		}
		w.Header().Set("Content-Type", "text/plain")
		if err := w.(whole).WriteWhole(status, "application/json", []byte("{}")); err != nil {
			t.Error(err)
		}
	})))
	c := dial(t, l)
	c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, body := c.answer(); resp.StatusCode != http.StatusNoContent || body != "" {
		t.Errorf("%s, %q", resp.Status, body)
	}
	c.send("GET /whole HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, body := c.answer(); body != "{}" || len(resp.Header["Content-Type"]) != 1 || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s, %q, %v", resp.Status, body, resp.Header)
	}
}

// TestWriteWhole compares a response that is given whole with one that is written.
func TestWriteWhole(t *testing.T) {
	large := strings.Repeat("x", 100<<10)
	for _, parts := range [][]string{{}, {"", ""}, {`{"a":`, "1", "}"}, {"{", large, "}"}} {
		at := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Set", "before")
			if r.URL.Path == "/written" {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", strconv.Itoa(len(strings.Join(parts, ""))))
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, strings.Join(parts, ""))
				return
			}
			var all [][]byte
			for _, p := range parts {
				all = append(all, []byte(p))
			}
			if err := w.(whole).WriteWhole(http.StatusBadRequest, "application/json", all...); err != nil {
				t.Error(err)
			}
			if w.(whole).WriteWhole(http.StatusOK, "text/plain", []byte("twice")) == nil {
				t.Error("a second response")
			}
			if n, err := w.Write([]byte("more")); n != 0 || err == nil {
				t.Error("more than the whole")
			}
		}
		_, l := listen(t, plainServer(http.HandlerFunc(at)))
		c := dial(t, l)
		var texts [2]string
		for i, path := range []string{"/written", "/whole"} {
			c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
			resp, body := c.answer()
			resp.Header.Del("Date")
			var all strings.Builder
			if err := resp.Header.Write(&all); err != nil {
				t.Fatal(err)
			}
			texts[i] = resp.Status + "\n" + all.String() + body
		}
		if texts[0] != texts[1] {
			t.Errorf("written:\n%.300s\nwhole:\n%.300s", texts[0], texts[1])
		}
	}
}
