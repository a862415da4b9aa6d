//go:build e2e

package matrix

import (
	"context"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// muteLink is a client's link to nobody.
type muteLink struct{}

func (muteLink) send([]byte, *request) error { return nil }
func (muteLink) forget(*request)             {}
func (muteLink) stream() error               { return nil }
func (muteLink) close()                      {}

// loneClient is a client with one call in flight: its id is 9007199254740994
// and its progress token "t".
func loneClient(t *testing.T, k kind, capabilities string) (*client, *cell, *request) {
	t.Helper()
	c := &client{
		kind: k, name: "lone", capabilities: capabilities, link: muteLink{}, pending: make(map[string]*request),
		tokens: make(map[string]*request), questions: make(map[string]bool), changed: make(chan struct{}),
	}
	c.life, c.end = context.WithCancel(t.Context())
	c.cell = &cell{said: make(map[string][]string), changed: make(chan struct{})}
	req, err := c.start(mcp.MethodToolsCall, []byte(`{"name":"x","_meta":{"progressToken":"t"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return c, c.cell, req
}

// TestClientIsStrict holds the scripted client to what it must notice: what the
// gateway may not do to a client.
func TestClientIsStrict(t *testing.T) {
	const (
		answer   = `{"jsonrpc":"2.0","id":9007199254740994,"result":{"content":[]}}`
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}`
		sampling = `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
		modern   = `{"jsonrpc":"2.0","id":9007199254740994,"result":{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolgate","version":"1"}}}}`
	)
	for _, c := range []struct {
		about string
		rev   mcp.Version
		got   []string
		want  string // in the problem; empty is none
	}{
		{"an answer", mcp.V20251125, []string{progress, answer}, ""},
		{"an answer of 2026-07-28", mcp.V20260728, []string{progress, modern}, ""},
		{"no JSON", mcp.V20251125, []string{`{`}, "Parse error"},
		{"an empty message", mcp.V20251125, []string{` `}, "empty"},
		{"a member twice", mcp.V20251125, []string{`{"jsonrpc":"2.0","id":9007199254740994,"result":{"content":[],"content":[]}}`}, "Parse error"},
		{"another id", mcp.V20251125, []string{`{"jsonrpc":"2.0","id":9007199254740993,"result":{"content":[]}}`}, "an answer to nothing"},
		{"the id as a text", mcp.V20251125, []string{`{"jsonrpc":"2.0","id":"9007199254740994","result":{"content":[]}}`}, "an answer to nothing"},
		{"two answers", mcp.V20251125, []string{answer, answer}, "a second answer"},
		{"progress after the answer", mcp.V20251125, []string{answer, progress}, "not in use"},
		{"progress of nobody", mcp.V20251125, []string{strings.Replace(progress, `"t"`, `"u"`, 1)}, "not in use"},
		{"progress that stands still", mcp.V20251125, []string{progress, progress}, "does not grow"},
		{"a member of the modern era", mcp.V20251125, []string{`{"jsonrpc":"2.0","id":9007199254740994,"result":{"resultType":"complete","content":[]}}`}, "has resultType"},
		{"a result without its type", mcp.V20260728, []string{answer}, "the gateway's"},
		{"the server's own name", mcp.V20260728, []string{strings.Replace(modern, "toolgate", "other", 1)}, "the gateway's"},
		{"a question in 2026-07-28", mcp.V20260728, []string{sampling}, "has no sampling/createMessage"},
		{"a question that was not declared", mcp.V20250618, []string{`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`}, "not declared"},
		{"the same question twice", mcp.V20250618, []string{sampling, sampling}, "used twice"},
		{"a method that came later", mcp.V20241105, []string{`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`}, "has no elicitation/create"},
		{"a notification of no subscription", mcp.V20260728, []string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, "no subscription"},
		{"a subscription of nobody", mcp.V20260728, []string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`}, "not in use"},
	} {
		t.Run(c.about, func(t *testing.T) {
			client, cell, _ := loneClient(t, kind{c.rev, overStdio}, `{"sampling":{}}`)
			for _, raw := range c.got {
				client.receive([]byte(raw), nil)
			}
			client.running.Wait()
			noticed(t, cell.problems, c.want)
		})
	}
}

func noticed(t *testing.T, problems []string, want string) {
	t.Helper()
	all := strings.Join(problems, "\n")
	if want == "" && all != "" || !strings.Contains(all, want) {
		t.Errorf("noticed %q, not %q", all, want)
	}
}

// TestClientKnowsItsStreams holds the client to the streams that messages come
// on.
func TestClientKnowsItsStreams(t *testing.T) {
	k := kind{mcp.V20251125, overStreamable}
	for _, c := range []struct {
		about, raw string
		standalone bool
		withdrawn  bool
		want       string
	}{
		{"its own stream", `{"jsonrpc":"2.0","id":9007199254740994,"result":{"content":[]}}`, false, false, ""},
		{"an answer on the standalone stream", `{"jsonrpc":"2.0","id":9007199254740994,"result":{"content":[]}}`, true, false, "another request"},
		{"an answer after the cancellation", `{"jsonrpc":"2.0","id":9007199254740994,"result":{"content":[]}}`, false, true, "cancelled"},
		{"a question on the standalone stream", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, true, false, "standalone"},
		{"a list change on the stream of a call", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, false, false, "not of this request"},
	} {
		t.Run(c.about, func(t *testing.T) {
			client, cell, req := loneClient(t, k, `{}`)
			if c.withdrawn {
				if err := client.withdraw(req); err != nil {
					t.Fatal(err)
				}
			}
			from := &origin{req: req}
			if c.standalone {
				from = &origin{standalone: true}
			}
			client.receive([]byte(c.raw), from)
			client.running.Wait()
			noticed(t, cell.problems, c.want)
		})
	}
}

// TestServerIsStrict holds the scripted server to what it must notice: what the
// gateway may not do to a server.
func TestServerIsStrict(t *testing.T) {
	const (
		initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`
		initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		call        = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fancy"}}`
		modern      = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fancy","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	)
	for _, c := range []struct {
		about string
		kind  kind
		got   []string
		want  string
	}{
		{"a call", kind{mcp.V20251125, overStdio}, []string{initialize, initialized, call}, ""},
		{"the probe", kind{mcp.V20251125, overStdio}, []string{`{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, initialize, initialized, call}, ""},
		{"a call of 2026-07-28", kind{mcp.V20260728, overStdio}, []string{modern}, ""},
		{"the handshake beside the probe", kind{mcp.V20260728, overStdio}, []string{initialize, modern}, ""},
		{"the handshake over 2026-07-28 HTTP", kind{mcp.V20260728, overStreamable}, []string{initialize}, ""},
		{"a call before the handshake", kind{mcp.V20251125, overStdio}, []string{call}, "before notifications/initialized"},
		{"a call in the middle of it", kind{mcp.V20251125, overStdio}, []string{initialize, call}, "before notifications/initialized"},
		{"an id twice", kind{mcp.V20251125, overStdio}, []string{initialize, initialized, call, call}, "used twice"},
		{"initialize twice", kind{mcp.V20251125, overStdio}, []string{initialize, strings.Replace(initialize, `"id":1`, `"id":3`, 1)}, "initialize came twice"},
		{"a method that came later", kind{mcp.V20250618, overStdio}, []string{initialize, initialized, `{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t"}}`}, "has no tasks/get"},
		{"a member of another hop", kind{mcp.V20251125, overStdio}, []string{initialize, initialized, strings.Replace(modern, `"fancy"`, `"fancy","arguments":{}`, 1)}, "another hop"},
		{"a request without its client", kind{mcp.V20260728, overStdio}, []string{call}, "does not say what its client is"},
		{"another revision", kind{mcp.V20260728, overStdio}, []string{strings.Replace(modern, "2026-07-28", "2025-11-25", 1)}, "is of the revision"},
		{"an answer to nothing", kind{mcp.V20251125, overStdio}, []string{initialize, initialized, `{"jsonrpc":"2.0","id":"q","result":{}}`}, "nobody asked"},
		{"a cancellation of nothing", kind{mcp.V20251125, overStdio}, []string{initialize, initialized, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`}, "never was"},
		{"a cancellation over modern HTTP", kind{mcp.V20260728, overStreamable}, []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`}, "end of the connection"},
		{"a forged request state", kind{mcp.V20260728, overStdio}, []string{strings.Replace(modern, `"name":"fancy"`,
			`"name":"ask","requestState":"forged","arguments":{"cell":"c","rounds":[[]]}`, 1)}, "not the one that was given"},
	} {
		t.Run(c.about, func(t *testing.T) {
			b := &board{cells: make(map[string]*cell)}
			p := newScripted(c.kind, "lone", b).connect(func([]byte) {})
			for _, raw := range c.got {
				if in := p.receive([]byte(raw), nil, func([]byte) {}); in != nil {
					in.serve()
				}
			}
			noticed(t, b.strays, c.want)
		})
	}
}

// TestImpossibleCells holds the table of impossible cells to its size: they are
// the revisions below the first that has something, and what has no stream.
func TestImpossibleCells(t *testing.T) {
	want := map[string]int{
		"sampling with tools": 169 - 5*5,
		"elicitation, form":   169 - 8*8,
		"elicitation, url":    169 - 5*5,
		"tasks":               169 - 5*5,
		channelChanges:        5 * 13, // three legacy clients and two modern ones
		"a tool that needs tasks, for a client without": 13 * 8,
		"a broken stream is resumed by the client":      10 * 13,
		"a broken stream is resumed towards the server": 13 * 10,
	}
	if n := len(kinds()); n != 13 {
		t.Fatalf("%d kinds of peers, not 13", n)
	}
	known := make(map[string]bool)
	for _, f := range features {
		known[f.name] = true
		got := 0
		for _, down := range kinds() {
			for _, up := range kinds() {
				if why := f.impossible(down, up); why != nil {
					got++
					if why.why == "" || why.section == "" {
						t.Errorf("%s: a cell that is impossible without a reason", f.name)
					}
				}
			}
		}
		if got != want[f.name] {
			t.Errorf("%s: %d impossible cells, not %d", f.name, got, want[f.name])
		}
	}
	for name := range want {
		if !known[name] {
			t.Errorf("there is no feature %q", name)
		}
	}
}

// TestEvents holds the reader of events to the format.
func TestEvents(t *testing.T) {
	for _, c := range []struct{ about, raw, want string }{
		{"one", "data: a\n\n", "||a;"},
		{"all fields", "id: 1\nevent: message\nretry: 5\ndata: a\n\n", "1|message|a;"},
		{"two lines of data", "data: a\ndata:b\n\n", "||a\nb;"},
		{"a comment", ":\n\ndata: a\n\n", "||a;"},
		{"an id alone", "id: 7\ndata: \n\n", "7||;"},
		{"line ends of both kinds", "data: a\r\n\r\n", "||a;"},
		{"cut off", "data: a", ""},
	} {
		t.Run(c.about, func(t *testing.T) {
			got := ""
			err := events(strings.NewReader(c.raw), func(ev event) bool {
				got += ev.id + "|" + ev.kind + "|" + string(ev.data) + ";"
				return true
			})
			if got != c.want || err != nil {
				t.Errorf("got %q, %v, not %q", got, err, c.want)
			}
		})
	}
}
