package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/limit"
)

// untouched is a body that fails the test when it is read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// largeEcho is a call of about this many bytes.
func largeEcho(bytes int) string {
	return request("7", "tools/call", `{"name":"s__echo","arguments":{"text":"`+strings.Repeat("x", bytes)+`"}}`)
}

// When the gateway holds as many message bytes as allowed, large messages are refused
// over each transport with advice, and small ones still pass.
func TestMessagesBeyondTheBound(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	bound := limit.NewBytes(1<<20, 512<<10)
	r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Messages, o.Limits.Body = bound, 512<<10 })
	session := r.open()
	sse, _ := r.begin(httpRequest("GET", "/sse", ""))
	testwait.Until(t, patience, "the stream has its endpoint", func() bool { return secrets.MatchString(sse.text()) })
	line := r.stdio(person("alice"))
	line.send(initBody)
	testwait.Until(t, patience, "initialize is answered", func() bool { return strings.Contains(line.out.String(), "protocolVersion") })

	refused := func(name string, w *recorder) {
		t.Helper()
		if w.code() != http.StatusServiceUnavailable || w.field("Retry-After") != "1" || w.field("Connection") != "close" ||
			!strings.Contains(w.text(), `"gateway_busy"`) || !strings.Contains(w.text(), "limits.bodies") {
			t.Errorf("%s: status %d, %s", name, w.code(), w.text())
		}
	}
	held := bound.Claim(person("alice").Key())
	if _, err := held.Read(strings.NewReader(strings.Repeat("x", 400<<10)), 400<<10, 512<<10); err != nil {
		t.Fatal(err)
	}
	large := httpRequest("POST", "/mcp", largeEcho(300<<10), "Mcp-Session-Id", session)
	refused("announced", r.do(large))
	chunked := httpRequest("POST", "/mcp", largeEcho(300<<10), "Mcp-Session-Id", session)
	chunked.ContentLength = -1
	refused("chunked", r.do(chunked))
	refused("SSE", r.do(httpRequest("POST", "/message?sessionId="+secrets.FindString(sse.text()), largeEcho(300<<10))))
	line.send(largeEcho(300<<10), request("8", "ping", ""))
	testwait.Until(t, patience, "both messages are answered", func() bool {
		said := line.out.String()
		return strings.Contains(said, `"gateway_busy"`) && strings.Contains(said, `"id":8`)
	})
	if w := r.legacy(session, "9", "ping", ""); w.code() != http.StatusOK {
		t.Errorf("a small message: status %d, %s", w.code(), w.text())
	}
	if len(b.seen(mcp.MethodToolsCall)) != 0 {
		t.Error("a call has reached the server")
	}
	if w := r.do(modernRequest(modernBody("1", "tools/call", `"name":"s__echo","arguments":{"text":"`+strings.Repeat("x", 300<<10)+`"}`, ""),
		"Authorization", "Bearer bob", "Mcp-Name", "s__echo")); w.code() != http.StatusOK {
		t.Errorf("another caller: status %d, %s", w.code(), w.text())
	}
	held.Release()
	if w := r.do(httpRequest("POST", "/mcp", largeEcho(300<<10), "Mcp-Session-Id", session)); w.code() != http.StatusOK {
		t.Errorf("when there is room: status %d, %s", w.code(), w.text())
	}
	line.send(largeEcho(300 << 10))
	testwait.Until(t, patience, "one answer, and nothing counts", func() bool { return strings.Count(line.out.String(), `"id":7`) == 1 && bound.Used() == 0 })
	line.send("[" + largeEcho(300<<10) + "]")
	testwait.Until(t, patience, "the batch is refused, and nothing counts", func() bool { return strings.Contains(line.out.String(), "batches") && bound.Used() == 0 })
	r.do(httpRequest("POST", "/message?sessionId="+secrets.FindString(sse.text()), largeEcho(300<<10)))
	testwait.Until(t, patience, "one answer, and nothing counts", func() bool { return strings.Count(sse.text(), `"id":7`) == 1 && bound.Used() == 0 })
}

// A message counts until its call has ended.
func TestMessagesCountWhileTheyAreHandled(t *testing.T) {
	release := make(chan struct{})
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		<-release
		return answered(mcp.Legacy, `{"content":[]}`), nil
	}
	bound := limit.NewBytes(8<<20, 1<<20)
	r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Messages = bound })
	call, _ := r.begin(httpRequest("POST", "/mcp", largeEcho(300<<10), "Mcp-Session-Id", r.open()))
	line := r.stdio(person("bob"))
	line.send(initBody, largeEcho(300<<10))
	testwait.Until(t, patience, "both calls reach the server", func() bool { return len(b.seen(mcp.MethodToolsCall)) == 2 })
	if got := bound.Used(); got < 2*(284<<10) {
		t.Errorf("two calls under way count as %d bytes", got)
	}
	close(release)
	<-call.done
	testwait.Until(t, patience, "nothing counts", func() bool { return bound.Used() == 0 })
}

// While memory is scarce, large messages are refused before they are read. Those of
// unauthenticated senders are never read.
func TestBodiesThatAreNotRead(t *testing.T) {
	bound := limit.NewBytes(8<<20, 4<<20)
	r := newRig(t, nil, func(o *Options, _ *Config) { o.Messages = bound })
	bound.Scarce(true)
	req := httpRequest("POST", "/mcp", "", "Mcp-Session-Id", r.open())
	req.Body, req.ContentLength = io.NopCloser(untouched{t}), 3<<20
	if w := r.do(req); w.code() != http.StatusServiceUnavailable || w.field("Retry-After") != "10" || !strings.Contains(w.text(), "short of memory") {
		t.Errorf("status %d, %s", w.code(), w.text())
	}
	bound.Scarce(false)
	req = httpRequest("POST", "/mcp", "", "Authorization", "Bearer mallory")
	req.Body, req.ContentLength = io.NopCloser(untouched{t}), 3<<20
	if w := r.do(req); w.code() != http.StatusUnauthorized {
		t.Errorf("status %d, %s", w.code(), w.text())
	}
}
