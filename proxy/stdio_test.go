package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/limit"
)

// talk serves a client that sends its lines and leaves, and returns what it got.
func (r *rig) talk(id *gate.Identity, lines ...string) (string, error) {
	r.t.Helper()
	var out syncBuffer
	err := r.ServeStdio(context.Background(), id, Scope{}, strings.NewReader(strings.Join(lines, "\n")), &out)
	return out.String(), err
}

func TestEOFAnswersWhatWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("slow"))
		b.reply = slowly(mcp.Legacy, 3*time.Second)
		r := newRig(t, mounted(b)).run()
		out, err := r.talk(person("alice"), initBody, request("1", "tools/call", `{"name":"s__slow"}`), request("2", "ping", "")) // without a line end
		if err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		for _, want := range []string{`"id":0,"result"`, `"id":1,"result"`, `"id":2,"result"`} {
			if !strings.Contains(out, want) {
				t.Errorf("no %s in %s", want, out)
			}
		}
		if r.sessions.count() != 0 {
			t.Error("the session is still open")
		}
	})
}

// A call that takes for ever does not block the end of a client that has left.
func TestEOFDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("slow"))
		b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
			<-ctx.Done()
			return mcp.Answer{}, context.Cause(ctx)
		}
		r := newRig(t, mounted(b)).run()
		began := time.Now()
		out, err := r.talk(person("alice"), initBody, request("1", "tools/call", `{"name":"s__slow"}`),
			modernBody("2", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""))
		if err != nil || time.Since(began) != lastResponsesTimeout {
			t.Errorf("after %v: %v, want nil after %v", time.Since(began), err, lastResponsesTimeout)
		}
		if strings.Contains(out, `"id":1,`) {
			t.Errorf("the withdrawn call was answered: %s", out)
		}
		if got := r.ledger.outcomes(); len(got) != 1 || got[0] != "cancelled" {
			t.Errorf("audit %v", got)
		}
	})
}

// Whatever is read, only messages are written, one per line.
func TestStdoutHoldsMessagesAlone(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("echo"), tool("panic"))
	b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		if call.Key == "panic" {
			panic("on purpose")
		}
		return answered(mcp.Legacy, "{\"content\":[\r\n{\"type\":\"text\",\n\"text\":\"\\n\"}]}"), nil
	}
	r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Limits.Body = 1000 })
	long := request("9", "tools/call", `{"name":"s__echo","arguments":{"a":"`+strings.Repeat("x", 70_000)+`"}}`)
	lines := []string{
		initBody, "", "   ", "\t", "\x00", "}{", "null", "[", "[]", "\xff\xfe", "\uFEFF{}", long, "  " + request("1", "tools/call", `{"name":"s__echo"}`) + " \r",
		request("2", "tools/call", `{"name":"s__panic"}`), long + long, request("3", "ping", ""),
	}
	out, err := r.talk(person("alice"), lines...)
	if err != nil {
		t.Error(err)
	}
	got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if want := len(lines) - 3; len(got) != want {
		t.Errorf("%d lines for %d messages: %s", len(got), want, out)
	}
	for _, line := range got {
		if _, err := mcp.Parse([]byte(line), mcp.Limits{}); err != nil {
			t.Errorf("written: %q: %v", line, err)
		}
	}
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\n"}]}}`, `"id":2,"error":{"code":-32603`, `"id":3,"result":{}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: a line of more than 1000 bytes (limits.body)"}}`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if n := len(b.seen("")); n != 2 {
		t.Errorf("%d calls reached the server, want 2", n)
	}
}

func TestReadLine(t *testing.T) {
	const most = 10
	tests := []struct {
		name, in string
		want     []string // ! is a line that is too long
	}{
		{"lines", "a\nb\r\nc", []string{"a", "b", "c"}},
		{"just long enough", "0123456789\n0123456789", []string{"0123456789", "0123456789"}},
		{"one too many", "0123456789a\nb\n", []string{"!", "b"}},
		{"far too many", strings.Repeat("x", 5000) + "\nb\n" + strings.Repeat("y", 100) + "\nc", []string{"!", "b", "!", "c"}},
		{"empty lines", "\n\n a\t\n", []string{"", "", "a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := bufio.NewReaderSize(strings.NewReader(tt.in), 16)
			var got []string
			for {
				line, err := readLine(in, most, limit.NewBytes(1<<20, 1<<10).Claim("a"))
				if errors.Is(err, errLineTooLong) {
					got = append(got, "!")
					continue
				}
				if err == nil || len(line) > 0 {
					got = append(got, string(line))
				}
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Fatal(err)
					}
					break
				}
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A client that writes but never reads is slowed down: both its queue and its requests
// are bounded.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const inFlight, queue = 8, 4
		r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo"))), func(o *Options, _ *Config) {
			o.Limits.InFlight, o.Limits.Queue = inFlight, queue
		}).run()
		in, feed := io.Pipe()
		out, sink := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- r.ServeStdio(context.Background(), person("alice"), Scope{}, in, sink) }()
		before := runtime.NumGoroutine()
		wrote := 0
		var writing sync.WaitGroup
		writing.Go(func() {
			for i := range 10_000 {
				line := request(fmt.Sprint(i), "ping", `{"x":"`+strings.Repeat("x", 1000)+`"}`)
				if _, err := io.WriteString(feed, line+"\n"); err != nil {
					return
				}
				wrote++
			}
		})
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 2*inFlight {
			t.Errorf("%d goroutines wait for a client that does not read", n)
		}
		if wrote > 5000 {
			t.Errorf("%d requests were taken from a client that does not read", wrote)
		}
		// When it reads at last, all its requests are answered.
		answers := 0
		reading := make(chan struct{})
		go func() {
			defer close(reading)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				answers++
			}
		}()
		writing.Wait()
		_ = feed.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = sink.Close()
		<-reading
		if answers != 10_000 {
			t.Errorf("%d answers for 10000 requests", answers)
		}
	})
}

// When the output breaks, the client's requests are cancelled.
func TestBrokenOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("slow"))
		b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
			<-ctx.Done()
			return mcp.Answer{}, context.Cause(ctx)
		}
		r := newRig(t, mounted(b)).run()
		in, feed := io.Pipe()
		out, sink := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- r.ServeStdio(context.Background(), person("alice"), Scope{}, in, sink) }()
		lines := bufio.NewReader(out)
		_, _ = io.WriteString(feed, initBody+"\n")
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(feed, request("1", "tools/call", `{"name":"s__slow"}`)+"\n")
		synctest.Wait()
		_ = out.CloseWithError(errBoom)
		go func() { _, _ = io.WriteString(feed, request("2", "ping", "")+"\n") }()
		if err := <-ended; !errors.Is(err, errBoom) {
			t.Errorf("ServeStdio: %v, want the broken output", err)
		}
		_ = feed.Close()
		synctest.Wait()
		if got := r.ledger.outcomes(); len(got) != 1 || got[0] != "cancelled" {
			t.Errorf("audit %v", got)
		}
	})
}

func TestStdioInFlightIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("slow"))
		b.reply = slowly(mcp.Legacy, time.Second)
		r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Limits.InFlight = 4 }).run()
		c := r.stdio(person("alice"))
		call := func(id string) string { return request(id, "tools/call", `{"name":"s__slow"}`) }
		c.send(initBody, call(`"1"`), call(`1`), call(`"\u0031"`), modernBody(`"1"`, "tools/call", `"name":"s__slow"`, ""))
		synctest.Wait()
		busy := `"error":{"code":-32600,"message":"Invalid Request: a request with this id is in flight"}`
		if got := c.out.drain(); strings.Count(got, busy) != 2 || !strings.Contains(got, `"id":"\u0031","error"`) {
			t.Errorf("two spellings of an id in flight: %s", got)
		}
		c.send(call("2"), call("3"), call("4"))
		synctest.Wait()
		if got := c.out.drain(); strings.Count(got, "too many requests in flight") != 1 {
			t.Errorf("five requests at once, with four allowed: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := c.out.drain(); strings.Count(got, `"result"`) != 4 {
			t.Errorf("the four admitted: %s", got)
		}
		c.send(call(`"1"`))
		time.Sleep(2 * time.Second)
		if got := c.out.drain(); !strings.Contains(got, `"id":"1","result"`) {
			t.Errorf("an id used again: %s", got)
		}
	})
}

// Several listens on one connection have their own filters and end separately; a
// cancelled one is not answered.
func TestStdioListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("echo"), `prompt {"name":"p"}`)
		r := newRig(t, mounted(b)).run()
		c := r.stdio(person("alice"))
		listen := func(id, filter string) string {
			return modernBody(id, "subscriptions/listen", `"notifications":{`+filter+`}`, "")
		}
		c.send(listen("1", `"toolsListChanged":true`), listen(`"1"`, `"promptsListChanged":true`), listen("3", `"resourcesListChanged":true`))
		synctest.Wait()
		if got := strings.Count(c.out.drain(), "acknowledged"); got != 3 {
			t.Errorf("%d acknowledgements, want 3", got)
		}
		b.offer(t, mcp.Modern, everything, tool("new"), `prompt {"name":"q"}`)
		r.Changed("s")
		time.Sleep(time.Second)
		want := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"}}}` + "\n"
		got := c.out.drain()
		if len(got) != len(want) || !strings.Contains(got, strings.Split(want, "\n")[0]) || !strings.Contains(got, strings.Split(want, "\n")[1]) {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		synctest.Wait()
		b.offer(t, mcp.Modern, everything, tool("newer"), `prompt {"name":"r"}`)
		r.Changed("s")
		time.Sleep(time.Second)
		if got := c.out.drain(); got != strings.Split(want, "\n")[1]+"\n" {
			t.Errorf("after the first was cancelled: %s", got)
		}
	})
}

// A message that comes while its stream ends starts nothing that outlives the stream.
func TestMessageAtTheEndOfItsStream(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo"))))
	for range 30 {
		sse, leave := r.begin(httpRequest("GET", "/sse", ""))
		testwait.Until(t, patience, "the stream has its endpoint", func() bool { return secrets.MatchString(sse.text()) })
		id := secrets.FindString(sse.text())
		var posts sync.WaitGroup
		for i := range 8 {
			posts.Go(func() {
				w := r.do(httpRequest("POST", "/message?sessionId="+id, request(fmt.Sprint(i), "ping", "")))
				if w.code() != http.StatusAccepted && w.code() != http.StatusNotFound {
					t.Errorf("status %d", w.code())
				}
			})
		}
		leave()
		posts.Wait()
		<-sse.done
	}
}

func TestSSERefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo"))), func(o *Options, _ *Config) { o.Limits.Body = 1000 }).run()
		sse, _ := r.begin(httpRequest("GET", "/sse", ""))
		synctest.Wait()
		id := secrets.FindString(sse.next())
		post := func(body string, headers ...string) *recorder {
			w := r.do(httpRequest("POST", "/message?sessionId="+id, body, headers...))
			synctest.Wait()
			return w
		}
		for body, want := range map[string]string{
			"garbage":                            `"id":null,"error":{"code":-32700`,
			request("1", "ping", "[]"):           `"id":1,"error":{"code":-32600`,
			request("2", "ping", ""):             `"id":2,"result":{}`,
			`[` + request("3", "ping", "") + `]`: `"id":null,"error":{"code":-32600,"message":"Invalid Request: only 2025-03-26 has batches"`,
		} {
			if w := post(body); w.code() != http.StatusAccepted || w.text() != "" {
				t.Errorf("%s: status %d, body %q", body, w.code(), w.text())
			}
			if got := sse.next(); !strings.Contains(got, want) || strings.Count(got, "data: ") != 1 {
				t.Errorf("%s: on the stream %q, want %s", body, got, want)
			}
		}
		for _, tt := range []struct {
			body, header, value string
			status              int
		}{
			{strings.Repeat("x", 1001), "X", "y", 413},
			{request("1", "ping", ""), "Content-Type", "text/plain", 415},
			{request("1", "ping", ""), "Origin", "null", 403},
			{request("1", "ping", ""), "Host", "evil.example", 403},
		} {
			w := post(tt.body, tt.header, tt.value)
			if w.code() != tt.status {
				t.Errorf("%s %s: status %d, want %d", tt.header, tt.value, w.code(), tt.status)
			}
			code(t, w)
			if got := sse.next(); got != "" {
				t.Errorf("%s %s: on the stream %q", tt.header, tt.value, got)
			}
		}
		if w := r.do(httpRequest("POST", "/message", request("1", "ping", ""))); w.code() != http.StatusNotFound {
			t.Errorf("no session: status %d", w.code())
		}
	})
}

func TestEnvelopeKeepsLargeResults(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 1<<20)
	head, body, tail := envelope("1", &response{result: big})
	if string(head) != `{"jsonrpc":"2.0","id":1,"result":` || &body[0] != &big[0] || string(tail) != "}" {
		t.Errorf("%s %d %s", head, len(body), tail)
	}
}
