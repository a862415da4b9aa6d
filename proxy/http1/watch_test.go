package http1_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/proxy/http1"
)

// TestBytesOfTheNextRequest sends a part of the next request with one, and more of it while the
// handler waits: the server looks whether the client is there, by reading.
func TestBytesOfTheNextRequest(t *testing.T) {
	long := strings.Repeat("b", 6<<10)
	for name, c := range map[string]struct{ first, early, late, want string }{
		"a head in two":  {get("/slow") + "GET /sec", "o", "nd HTTP/1.1\r\nHost: gate.example\r\n\r\n", "/second:"},
		"a head and one": {get("/slow"), "G", strings.TrimPrefix(get("/second"), "G"), "/second:"},
		"a body in two":  {get("/slow") + postPart("/second", long[:10], len(long)), "b", long[11:], "/second:" + long},
		"behind a body":  {post("/slow", "{}") + "GET /sec", "o", "nd HTTP/1.1\r\nHost: gate.example\r\n\r\n", "/second:"},
		"an odd one":     {get("/slow") + "PUT /sec", "o", "nd HTTP/1.1\r\nHost: gate.example\r\n\r\n", "/second:"},
		"two of them":    {get("/slow") + get("/between") + "GET /sec", "o", "nd HTTP/1.1\r\nHost: gate.example\r\n\r\n", "/between:/second:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			taken, goOn := make(chan struct{}), make(chan struct{})
			l := tap(port(t))
			start(t, http1.New(plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if r.URL.Path == "/slow" {
					close(taken)
					<-goOn
					return
				}
				if _, err2 := io.WriteString(w, r.URL.Path+":"+string(body)); err != nil || err2 != nil {
					t.Error(err, err2)
				}
			}))), l)
			conn := dial(t, l)
			conn.send(c.first)
			within(t, "the request is served", taken)
			for len(l.read) > 0 { // what came with it
				<-l.read
			}
			conn.send(c.early)
			within(t, "its byte is read", l.read)
			close(goOn)
			conn.wantAnswer("")
			conn.send(c.late)
			got := ""
			for len(got) < len(c.want) {
				_, body := conn.answer()
				got += body
			}
			if got != c.want {
				t.Errorf("answers = %.40q, want %.40q", got, c.want)
			}
		})
	}
}
