package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/http1"
)

// A refusal does not wait for the body of its request, and the connection ends
// behind it; where the body came whole with its headers, the connection goes on.
func TestRefusalsDoNotWaitForBodies(t *testing.T) {
	t.Parallel()
	refuses := func() *http.Server {
		return NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writeFault(w, http.StatusUnauthorized, "", mcp.Errorf(mcp.CodeInvalidRequest, "no"))
		}))
	}
	t.Run("net/http", func(t *testing.T) { refusesAtOnce(t, refuses()) })
	t.Run("http1", func(t *testing.T) { refusesAtOnce(t, http1.New(refuses())) })
}

func refusesAtOnce(t *testing.T, server interface {
	Serve(l net.Listener) error
	Close() error
},
) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }() // ends with Close
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	for _, tc := range []struct {
		name, request string
		ends          bool
	}{
		{"a part of a body", "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{", true},
		{"a large body", "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n{", true},
		{"chunks", "POST /mcp HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", true},
		{"a GET with a body", "GET /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n", true},
		{"one that waits for leave", "POST /mcp HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n", true},
		{"a whole body", "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			in := bufio.NewReader(c)
			for range 2 {
				if _, err := io.WriteString(c, tc.request); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusUnauthorized || resp.Close != tc.ends {
					t.Fatalf("status %d, the connection ends: %v", resp.StatusCode, resp.Close)
				}
				if tc.ends {
					if _, err := in.ReadByte(); err == nil {
						t.Error("something came behind the answer")
					} else if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // of the connection itself
						t.Error("the connection stayed open")
					}
					return
				}
			}
		})
	}
}
