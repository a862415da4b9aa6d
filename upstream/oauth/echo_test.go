package oauth_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// TestEchoes has an authorization server answer with what it was sent, as no HTTP: an
// error about that repeats nothing of it.
func TestEchoes(t *testing.T) {
	for what, answer := range map[string]func(sent string) string{
		"as a status line": func(sent string) string { return sent + "\r\n\r\n" },
		"as a header":      func(sent string) string { return "HTTP/1.1 200 OK\r\n" + sent + "\r\n\r\n" },
		"as a length":      func(sent string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + sent + "\r\n\r\n" },
		"as an encoding":   func(sent string) string { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + sent + "\r\n\r\n" },
		"as a chunk": func(sent string) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + sent + "\r\n\r\n"
		},
		"as a body": func(sent string) string { return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + sent },
		"as a code": func(sent string) string {
			return "HTTP/1.1 400 " + sent + "\r\nContent-Type: application/json\r\n\r\n{\"error\":\"" + sent + "\"}"
		},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { // ends with the listener
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err == nil {
					_ = r.ParseForm()
					_, _ = conn.Write([]byte(answer("canary " + r.Header.Get("Authorization") + r.Form.Encode())))
				}
				conn.Close()
			}
		}()
		own := &http.Transport{}
		for name, fetch := range fetches(&oauth.Client{HTTP: own, Loopback: true}, "http://"+l.Addr().String()) {
			if err := fetch(t.Context()); err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		own.CloseIdleConnections()
		l.Close()
		<-done
	}
}
