package upstream

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// TestServersThatEcho has a server answer with what it was shown, as HTTP and as no
// HTTP: neither the log nor the reason of its state repeats it.
func TestServersThatEcho(t *testing.T) {
	for what, answer := range map[string]func(sent string) string{
		"a status line": func(sent string) string { return sent + "\r\n\r\n" },
		"a header":      func(sent string) string { return "HTTP/1.1 200 OK\r\n" + sent + "\r\n\r\n" },
		"a length":      func(sent string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + sent + "\r\n\r\n" },
		"a refusal": func(sent string) string {
			return "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n" + strings.Repeat("x", 90) + " " + sent
		},
		"a fault": func(sent string) string { return "HTTP/1.1 500 " + sent + "\r\nConnection: close\r\n\r\n" + sent },
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
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = conn.Write([]byte(answer(r.Header.Get("Authorization") + " " + r.Header.Get("X-Api-Key"))))
				}
				conn.Close()
			}
		}()
		r := run(t, Spec{URL: "http://" + l.Addr().String() + "/mcp", Headers: map[string]string{"Authorization": "Bearer canary-token", "X-Api-Key": "canary-key"}})
		reason := r.state(mcp.Failed)
		failure := r.fails(tool("echo", "{}"))
		for where, text := range map[string]string{"the reason": reason, "the failure": failure.Error() + cause(failure)} {
			if strings.Contains(text, "canary") {
				t.Errorf("%s: %s is %q", what, where, text)
			}
		}
		r.end()
		if n := r.log.count("canary"); n != 0 {
			t.Errorf("%s: %d lines of the log have it: %q", what, n, r.log.lines)
		}
		l.Close()
		<-done
	}
}
