package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"

	"github.com/toolgate/toolgate/internal/bench/raw"
	"github.com/toolgate/toolgate/internal/mcp"
)

// maxListeners bounds the addresses of a light server.
const maxListeners = 64

// lightProgram is the fast server with answers to echo and blob that are made of bytes: it costs
// a fraction of what any proxy in front of it does. It can be several servers, each at an
// address of its own, or one on standard input and output.
func lightProgram(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("light", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "loopback `address`")
	count := flags.Int("listeners", 1, "`number` of addresses")
	stdio := flags.Bool("stdio", false, "speak on standard input and output instead")
	era := flags.String("era", "legacy", "legacy or modern")
	answers := flags.String("answers", "json", "json or sse")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *stdio {
		return newLight(*era == "modern", false).pipe(ctx, os.Stdin, os.Stdout)
	}
	if *count < 1 || *count > maxListeners {
		return fmt.Errorf("%d addresses; there can be 1 to %d", *count, maxListeners)
	}
	var all []*net.TCPListener
	for range *count {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", *listen, err)
		}
		defer l.Close()
		fmt.Printf("http://%s %d\n", l.Addr(), 0)
		all = append(all, l.(*net.TCPListener))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go untilInputEnds(cancel) // ends with the process at the latest
	return raw.Serve(ctx, newLight(*era == "modern", *answers == "sse").answer, all...)
}

// light is the fast server over raw connections.
type light struct {
	fast *fastServer
	body []byte
}

func newLight(modern, events bool) *light { return &light{fast: newFastServer(modern, events, 0)} }

// answer appends the response to a request. What is no call of echo or blob goes the way of
// the fast server.
func (s *light) answer(r *raw.Frame, out []byte) []byte {
	if !s.message(r.Body) {
		return s.slow(r, out)
	}
	return s.whole(out)
}

// message makes the answer to a call of echo or blob, as a body. It reports whether the request
// is one.
func (s *light) message(request []byte) bool {
	id, call := call(request)
	if call == nil {
		return false
	}
	s.body = append(append(s.body[:0], s.before()...), `{"jsonrpc":"2.0","id":`...)
	s.body = append(append(s.body, id...), `,"result":`+textStart+`"`...)
	if text := between(call, `"text":"`, '"'); text != nil {
		s.body = append(s.body, text...)
	} else {
		size, _ := strconv.Atoi(string(between(call, `"bytes":`, '}')))
		for size = min(size, maxResult); size > 0; size -= len(s.fast.fill) {
			s.body = append(s.body, s.fast.fill[:min(size, len(s.fast.fill))]...)
		}
	}
	s.body = append(s.body, `"`+textEnd...)
	if s.fast.modern {
		s.body = append(s.body, `,"resultType":"complete"`...)
	}
	s.body = append(append(s.body, "}}"...), s.fast.after()...)
	return true
}

// whole appends a response with the body that was made. Events come in one chunk, as a server
// sends them that flushes after each.
func (s *light) whole(out []byte) []byte {
	if !s.fast.events {
		out = append(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "...)
		out = append(strconv.AppendInt(out, int64(len(s.body)), 10), "\r\n\r\n"...)
		return append(out, s.body...)
	}
	out = append(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"...)
	out = append(strconv.AppendInt(out, int64(len(s.body)), 16), "\r\n"...)
	return append(append(out, s.body...), "\r\n0\r\n\r\n"...)
}

func (s *light) before() string {
	if s.fast.events {
		return "event: message\ndata: "
	}
	return ""
}

// call returns the id and the parameters of a call of echo or blob; nil for another message.
func call(body []byte) (id, params []byte) {
	_, params, ok := bytes.Cut(body, []byte(`"method":"tools/call"`))
	if !ok || !bytes.Contains(params, []byte(`"name":"echo"`)) && !bytes.Contains(params, []byte(`"name":"blob"`)) {
		return nil, nil
	}
	return between(body, `"id":`, ','), params
}

// between returns what stands after a text and before a byte; nil when it is not there.
func between(b []byte, after string, before byte) []byte {
	_, rest, ok := bytes.Cut(b, []byte(after))
	if end := bytes.IndexByte(rest, before); ok && end >= 0 {
		return rest[:end]
	}
	return nil
}

// slow lets the fast server answer.
func (s *light) slow(r *raw.Frame, out []byte) []byte {
	text := append(append(bytes.Clone(r.Head), "\r\n\r\n"...), r.Body...)
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return append(out, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"...)
	}
	w := httptest.NewRecorder()
	s.fast.ServeHTTP(w, request)
	out = fmt.Appendf(out, "HTTP/1.1 %d %s\r\n", w.Code, http.StatusText(w.Code))
	for _, name := range []string{"Content-Type", mcp.HeaderSession, "Allow"} {
		if value := w.Header().Get(name); value != "" {
			out = fmt.Appendf(out, "%s: %s\r\n", name, value)
		}
	}
	return fmt.Appendf(out, "Content-Length: %d\r\n\r\n%s", w.Body.Len(), w.Body)
}

// lightCaller calls echo or blob with a request of which only two numbers change, of each of some
// servers in turn.
type lightCaller struct {
	tools  []lightTool
	number int64
	size   int // of a blob; 0 for an echo
	text   []byte
}

// lightTool is what a request says of the tool that it calls.
type lightTool struct{ head, params string }

// firstCall is the first number of a call, so that all have as many digits.
const firstCall = 1_000_000_000

// callers prepares one for each client that has opened its conversation. They begin with
// different prefixes of names.
func callers(clients []*client, prefixes []string, size int) ([]raw.Caller, string, error) {
	var all []raw.Caller
	var host string
	for i, c := range clients {
		at, err := url.Parse(c.url)
		if err != nil {
			return nil, "", err
		}
		host = at.Host
		l := &lightCaller{number: firstCall, size: size}
		for j := range prefixes {
			l.tools = append(l.tools, c.light(at, prefixes[(i+j)%len(prefixes)], size))
		}
		all = append(all, l)
	}
	return all, host, nil
}

// light prepares the calls of echo or blob under a prefix.
func (c *client) light(at *url.URL, prefix string, size int) lightTool {
	head := "POST " + at.Path + " HTTP/1.1\r\nHost: " + at.Host + "\r\nAccept: " + acceptBoth[0] + "\r\nContent-Type: application/json\r\n"
	name := prefix + "echo"
	if size > 0 {
		name = prefix + "blob"
	}
	meta := ""
	if c.modern {
		meta = "," + c.meta
		head += mcp.HeaderVersion + ": " + string(mcp.LatestModern) + "\r\n" + mcp.HeaderMethod + ": tools/call\r\n" + mcp.HeaderName + ": " + name + "\r\n"
	} else {
		head += mcp.HeaderVersion + ": " + string(mcp.LatestLegacy) + "\r\n" + mcp.HeaderSession + ": " + c.session + "\r\n"
	}
	if token := os.Getenv(tokenVariable); token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	return lightTool{head: head, params: `"name":"` + name + `"` + meta}
}

// Request implements [raw.Caller].
func (c *lightCaller) Request(out []byte) []byte {
	c.number++
	tool := &c.tools[c.number%int64(len(c.tools))]
	c.text = strconv.AppendInt(c.text[:0], c.number, 10)
	arguments := `,"arguments":{"n":` + string(c.text) + `,"bytes":` + strconv.Itoa(c.size) + `}}}`
	if c.size == 0 {
		for len(c.text) < echoSize {
			c.text = append(c.text, '.')
		}
		arguments = `,"arguments":{"text":"` + string(c.text) + `"}}}`
	}
	id := c.text[:10]
	size := len(`{"jsonrpc":"2.0","id":,"method":"tools/call","params":{`) + len(id) + len(tool.params) + len(arguments)
	out = append(append(out, tool.head...), "Content-Length: "...)
	out = append(strconv.AppendInt(out, int64(size), 10), "\r\n\r\n"...)
	out = append(append(append(out, `{"jsonrpc":"2.0","id":`...), id...), `,"method":"tools/call","params":{`...)
	return append(append(out, tool.params...), arguments...)
}

// Check implements [raw.Caller].
func (c *lightCaller) Check(f *raw.Frame) error {
	got := between(f.Body, `"text":"`, '"')
	right := f.Status() == http.StatusOK && bytes.Equal(bytes.TrimSpace(between(f.Body, `"id":`, ',')), c.text[:10])
	if c.size == 0 {
		right = right && bytes.Equal(got, c.text)
	} else {
		right = right && len(got) == c.size && bytes.Count(got, []byte{fillByte}) == c.size
	}
	if !right {
		return fmt.Errorf("call %d was answered with HTTP %d: %.300s", c.number, f.Status(), f.Body)
	}
	return nil
}
