package raw

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nX: y\r\n"
	for _, tt := range []struct {
		name, text, body string
		rest             int // bytes after the message; -1 while it is not whole
	}{
		{"nothing", "", "", -1},
		{"half a head", "HTTP/1.1 200 OK\r\nX:", "", -1},
		{"no body", head + "\r\n", "", 0},
		{"a length", head + "content-LENGTH:  3 \r\n\r\nabcd", "abc", 1},
		{"half a body", head + "Content-Length: 3\r\n\r\nab", "", -1},
		{"chunks", head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde", 0},
		{"a line within a chunk", head + "Transfer-Encoding: chunked\r\n\r\n7\r\n0\r\n\r\nab\r\n0\r\n\r\nHTTP", "0\r\n\r\nab", 4},
		{"half a chunk", head + "Transfer-Encoding: chunked\r\n\r\n3\r\nab", "", -1},
		{"no last chunk", head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "", -1},
		{"half the last chunk", head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", "", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, size, err := parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if tt.rest < 0 {
				if size != 0 {
					t.Errorf("%d bytes are a message", size)
				}
				return
			}
			if size != len(tt.text)-tt.rest || string(f.Body) != tt.body || f.Status() != 200 || string(f.Field("x")) != "y" || f.Field("y") != nil {
				t.Errorf("%d bytes, %q, %q", size, f.Head, f.Body)
			}
		})
	}
	for name, text := range map[string]string{
		"no end of the head": strings.Repeat("x", maxHead+1),
		"a length":           "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
		"a negative length":  "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"a huge length":      "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n",
		"a size":             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n",
		"a huge chunk":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
	} {
		if _, size, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: %d bytes, and no error", name, size)
		}
	}
	if n := (&Frame{Head: []byte("POST / HTTP/1.1")}).Status(); n != 0 {
		t.Errorf("a request has the status %d", n)
	}
}
