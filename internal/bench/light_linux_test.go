package main

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/bench/raw"
)

// TestLightAnswersAsTheFastServer calls both servers by both kinds of clients, which check every
// answer.
func TestLightAnswersAsTheFastServer(t *testing.T) {
	for _, s := range []setting{{"legacy", "json"}, {"legacy", "sse"}, {"modern", "json"}, {"modern", "sse"}} {
		t.Run(s.String(), func(t *testing.T) {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- raw.Serve(ctx, newLight(s.era == "modern", s.answers == "sse").answer, l.(*net.TCPListener))
			}()
			defer func() {
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
				l.Close()
			}()
			for _, url := range []string{"http://" + l.Addr().String(), testServer(t, newFastServer(s.era == "modern", s.answers == "sse", 0))} {
				all := &load{url: url + "/mcp", era: s.era, prefixes: []string{""}}
				var out strings.Builder
				if err := all.serve(t.Context(), strings.NewReader(`{"do":"open","count":3}
{"do":"echo","count":12,"most":60000000000}
{"do":"echo","light":true,"count":30,"most":60000000000}
{"do":"echo","light":true,"count":30,"rate":5000,"most":60000000000}
{"do":"blob","light":true,"size":100000,"count":9,"most":60000000000}
{"do":"blob","size":100000,"count":9,"most":60000000000}
{"do":"tools","count":3,"most":60000000000}
{"do":"end"}
`), &out); err != nil {
					t.Fatal(err)
				}
				if strings.Count(out.String(), `"failed":0`) != 8 || strings.Contains(out.String(), `"done":0`) {
					t.Error(out.String())
				}
			}
		})
	}
}

// TestPipesAnswerAsTheFastServer calls a server on a pipe by the bridge in front of it.
func TestPipesAnswerAsTheFastServer(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			toServer, fromClients := io.Pipe()
			toClients, fromServer := io.Pipe()
			b := &bridge{in: fromClients}
			ended := make(chan error, 2)
			go func() { // ends with its input
				err := newLight(era == "modern", false).pipe(t.Context(), toServer, fromServer)
				fromServer.Close()
				ended <- err
			}()
			go func() { ended <- b.read(toClients) }() // ends with the server
			defer func() {
				fromClients.Close()
				if err := errors.Join(<-ended, <-ended); err != nil {
					t.Error(err)
				}
			}()
			all := &load{url: testServer(t, b) + "/mcp", era: era, prefixes: []string{""}}
			var out strings.Builder
			if err := all.serve(t.Context(), strings.NewReader(`{"do":"open","count":3}
{"do":"echo","count":12,"most":60000000000}
{"do":"echo","light":true,"count":30,"most":60000000000}
{"do":"blob","light":true,"size":100000,"count":9,"most":60000000000}
{"do":"blob","size":100000,"count":9,"most":60000000000}
{"do":"tools","count":3,"most":60000000000}
{"do":"end"}
`), &out); err != nil {
				t.Fatal(err)
			}
			if strings.Count(out.String(), `"failed":0`) != 7 || strings.Contains(out.String(), `"done":0`) {
				t.Error(out.String())
			}
		})
	}
}

func TestPipeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no message":   "nonsense\n",
		"endless line": strings.Repeat("x", maxRequest+1),
	} {
		if err := newLight(false, false).pipe(t.Context(), strings.NewReader(text), io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Calls of several prefixes go through all of them, and clients begin at different ones.
func TestLightCallsAllPrefixes(t *testing.T) {
	clients := []*client{{url: "http://127.0.0.1/mcp"}, {url: "http://127.0.0.1/mcp"}}
	all, _, err := callers(clients, []string{"a__", "b__"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var first []bool
	for _, c := range all {
		seen := 0
		for range 2 {
			text := string(c.Request(nil))
			a, b := strings.Contains(text, `"a__echo"`), strings.Contains(text, `"b__echo"`)
			if a == b {
				t.Fatalf("calls neither or both: %s", text)
			}
			if a {
				seen++
			}
			first = append(first, a)
		}
		if seen != 1 {
			t.Errorf("%d of two calls go to the first prefix", seen)
		}
	}
	if first[0] == first[2] {
		t.Error("both clients begin with the same prefix")
	}
}

// A wrong answer is no call that was made.
func TestLightCheck(t *testing.T) {
	const head = "HTTP/1.1 200 OK"
	for name, tt := range map[string]struct {
		size       int
		head, body string
		ok         bool
	}{
		"right":          {0, head, `{"jsonrpc":"2.0","id":1000000001,"result":{"content":[{"type":"text","text":"TEXT"}]}}`, true},
		"as an event":    {0, head, "event: message\ndata: " + `{"jsonrpc":"2.0","id":1000000001,"result":{"content":[{"type":"text","text":"TEXT"}]}}`, true},
		"another id":     {0, head, `{"jsonrpc":"2.0","id":1000000002,"result":{"content":[{"type":"text","text":"TEXT"}]}}`, false},
		"another text":   {0, head, `{"jsonrpc":"2.0","id":1000000001,"result":{"content":[{"type":"text","text":"TEXT."}]}}`, false},
		"another status": {0, "HTTP/1.1 500 No", `{"jsonrpc":"2.0","id":1000000001,"result":{"content":[{"type":"text","text":"TEXT"}]}}`, false},
		"nothing":        {0, head, "", false},
		"a blob":         {3, head, `{"jsonrpc":"2.0","id":1000000001,"result":{"content":[{"type":"text","text":"xxx"}]}}`, true},
		"a short blob":   {3, head, `{"jsonrpc":"2.0","id":1000000001,"result":{"content":[{"type":"text","text":"xx"}]}}`, false},
		"another blob":   {3, head, `{"jsonrpc":"2.0","id":1000000001,"result":{"content":[{"type":"text","text":"xyx"}]}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &lightCaller{tools: make([]lightTool, 1), number: firstCall, size: tt.size}
			c.Request(nil)
			body := strings.ReplaceAll(tt.body, "TEXT", string(c.text))
			if err := c.Check(&raw.Frame{Head: []byte(tt.head), Body: []byte(body)}); (err == nil) != tt.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestLightProgramRefuses(t *testing.T) {
	for _, args := range [][]string{{"-nonsense"}, {"-listen", "nonsense"}, {"-listeners", "0"}, {"-listeners", "1000"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := lightProgram(ctx, args); err == nil {
			t.Errorf("%v is taken", args)
		}
		cancel()
	}
}
