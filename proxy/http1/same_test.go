package http1_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolgate/toolgate/proxy/http1"
	"github.com/toolgate/toolgate/proxy/limit"
)

// reply is what a client has got for a request.
type reply struct {
	Status string
	Header http.Header
	Length int64
	Coding []string
	Close  bool
	Body   string
	Err    string
}

// result is what became of the bytes of a client.
type result struct {
	seen    []*seen
	replies []reply
	rest    string // is no response
	err     error  // of Serve
}

// serveText gives the bytes of a client to a server.
func serveText(text []byte, cuts uint64, wrapped, plain bool) result {
	a := &actor{}
	of := plainServer(a)
	if wrapped {
		of.Handler = limit.WithoutUnread(a)
	}
	var s server = of
	if !plain {
		s = http1.New(of)
	}
	l, conn := newConns(), split(text, cuts)
	l.made <- conn
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	<-conn.closed
	s.Close()
	r := result{seen: a.seen, err: <-done}
	r.parse(conn.out.Bytes())
	return r
}

func (r *result) parse(out []byte) {
	in := bytes.NewReader(out)
	from := bufio.NewReader(in)
	for {
		at := len(out) - in.Len() - from.Buffered()
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			r.rest = string(out[at:])
			return
		}
		body, err := io.ReadAll(resp.Body)
		resp.Header.Del("Date")
		r.replies = append(r.replies, reply{
			resp.Status, resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Close, string(body), fmt.Sprint(err),
		})
	}
}

// checkSame gives the same bytes to this server and to that of the standard library.
func checkSame(t *testing.T, text []byte, cuts uint64, wrapped bool) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := serveText(text, cuts, wrapped, false), serveText(text, cuts, wrapped, true)
		if err := differ(ours, theirs); err != nil {
			t.Errorf("%.300q, cut by %#x, wrapped %v: %v", text, cuts, wrapped, err)
		}
	})
}

// differ tells how what this server has done is not what that of the standard library has done.
// What may be different:
//   - how far a connection is used when a body was not read to its end: the buffers of the two
//     have not received the same of it;
//   - what is written of a response that its handler aborts;
//   - which of the two still answers a head that ends with the connection.
func differ(ours, theirs result) error {
	for i, s := range ours.seen {
		switch {
		case i == len(theirs.seen):
			return fmt.Errorf("request %d is not one for net/http: %+v", i, s)
		case !reflect.DeepEqual(s, theirs.seen[i]):
			return fmt.Errorf("request %d\n    here %+v\nnet/http %+v", i, s, theirs.seen[i])
		}
	}
	for i, r := range theirs.replies {
		switch {
		case i < len(ours.seen) && ours.seen[i].aborted, i == len(ours.replies) && r.refuses(i, ours, theirs):
			return nil
		case i == len(ours.replies):
			return fmt.Errorf("no response %d, which is %+v of net/http", i, r)
		}
		our := ours.replies[i]
		if unread := i < len(ours.seen) && !ours.seen[i].ended; unread && r.Close != our.Close {
			r.Close, our.Close = true, true
			r.Header.Del("Connection")
			our.Header.Del("Connection")
			if !reflect.DeepEqual(our, r) {
				return fmt.Errorf("response %d\n    here %+v\nnet/http %+v", i, our, r)
			}
			return nil
		}
		if !reflect.DeepEqual(our, r) {
			return fmt.Errorf("response %d\n    here %+v\nnet/http %+v", i, our, r)
		}
	}
	switch {
	case !errors.Is(ours.err, http.ErrServerClosed):
		return fmt.Errorf("serve: %w", ours.err)
	case len(ours.seen) != len(theirs.seen):
		return fmt.Errorf("%d requests, but %d of net/http", len(ours.seen), len(theirs.seen))
	case len(ours.replies) == len(theirs.replies)+1 && ours.replies[len(theirs.replies)].refuses(len(theirs.replies), theirs, ours):
		return nil
	case len(ours.replies) != len(theirs.replies):
		return fmt.Errorf("response too many: %+v", ours.replies[len(theirs.replies)])
	case ours.rest != theirs.rest:
		return fmt.Errorf("behind the responses %q, but %q of net/http", ours.rest, theirs.rest)
	}
	return nil
}

// refuses tells whether it is the answer to the end of the connection in a head, which one of
// two servers has given as the last of its responses.
func (r *reply) refuses(i int, without, with result) bool {
	return i == len(with.replies)-1 && len(without.seen) == len(with.seen) && i >= len(with.seen) && r.Close &&
		strings.HasPrefix(r.Status, "400 ")
}

// actions are what a handler is told to do.
var actions = []string{
	"", "size=5", "size=0&length=0", "size=5&length=0", "size=5&length=3", "size=3000&writes=2", "size=2048", "size=2049&writes=3",
	"size=9000&writes=8", "size=9000&length=0", "size=9000&writes=3&length=0&flush", "size=10&writes=2&flush", "size=20000&flush",
	"status=204", "status=204&size=3", "status=304&length=0", "status=304&flush", "status=404&size=9", "status=599", "status=299&flush",
	"close&size=3", "close&flush", "read=none&size=3", "read=half&size=3", "read=half&flush", "read=none&status=401&length=0&size=9",
	"sniff&size=7", "sniff&size=0", "abort", "abort&size=9&flush", "read=none&close", "size=4096", "size=4095&length=0", "size=1025&writes=1&length=0",
}

// requests are how a request may look, with the query of its target and with its body as %s.
var requests = []string{
	"GET /a?%[1]s HTTP/1.1\r\nHost: gate.example\r\n\r\n",
	"GET /a?%[1]s HTTP/1.1\r\nHost: gate.example\r\nConnection: close\r\n\r\n",
	"DELETE /a%%20b?%[1]s HTTP/1.1\r\nHost: gate.example:80\r\nX-A: 1\r\nx-a:2 \r\nX-B:\t\r\nConnection: Keep-Alive\r\n\r\n",
	"POST //a?%[1]s HTTP/1.1\r\nhost: [::1]:80\r\ncontent-length: %[3]d\r\nCookie: a=b; c\r\n\r\n%[2]s",
	"POST /mcp?%[1]s HTTP/1.1\r\nHost: gate.example\r\nContent-Length:%[3]d\r\nAccept: a, b\r\n\r\n%[2]s",
	"POST /mcp?%[1]s HTTP/1.1\r\nHost: gate.example\r\nTransfer-Encoding: chunked\r\n\r\n%[3]x\r\n%[2]s\r\n0\r\n\r\n",
	"PUT /mcp?%[1]s HTTP/1.1\r\nHost: gate.example\r\nContent-Length: %[3]d\r\n\r\n%[2]s",
	"GET /a?%[1]s HTTP/1.0\r\nHost: gate.example\r\nConnection: keep-alive\r\n\r\n",
	"POST /mcp?%[1]s HTTP/1.1\r\nHost: gate.example\r\nContent-Length: %[3]d\r\nExpect: 100-continue\r\n\r\n%[2]s",
}

// bodies are bodies of requests, none of them empty.
var bodies = []string{"{}", "x", strings.Repeat("b", 4000), strings.Repeat("c", 5000), get("/smuggled"), "\r\n\r\n"}

// TestSame sends pipelined requests of all forms, in parts.
func TestSame(t *testing.T) {
	pick := rand.New(rand.NewPCG(1, 2))
	one := func(action string) string {
		form, body := pick.IntN(len(requests)), bodies[pick.IntN(len(bodies))]
		if pick.IntN(2) == 0 {
			form %= 5 // plain
		}
		text := fmt.Sprintf(requests[form], action, body, len(body))
		if at := strings.Index(text, "%!(EXTRA"); at >= 0 {
			text = text[:at]
		}
		return text
	}
	for range 6 {
		for _, action := range actions {
			text := one(action)
			for range pick.IntN(4) {
				text += one(actions[pick.IntN(len(actions))])
			}
			if pick.IntN(8) == 0 {
				text = text[:len(text)-1]
			}
			cuts := pick.Uint64() & pick.Uint64() & pick.Uint64() & pick.Uint64()
			if pick.IntN(3) == 0 {
				cuts = 0
			}
			checkSame(t, []byte(text), cuts, pick.IntN(2) == 0)
			if t.Failed() {
				return
			}
		}
	}
}
