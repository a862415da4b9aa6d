package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/testwait"
)

// everyField is a form with a field of each kind that the specification has.
const everyField = `{"type":"object","properties":{
	"name":{"type":"string","title":"Your name","description":"As on the door","minLength":3},
	"mail":{"type":"string","format":"email"},
	"age":{"type":"integer","minimum":18,"maximum":120},
	"rate":{"type":"number","default":2.5},
	"sure":{"type":"boolean","default":false},
	"colour":{"type":"string","enum":["red","green"],"enumNames":["Red","Green"]},
	"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}],"default":"l"},
	"tags":{"type":"array","items":{"type":"string","enum":["a","b","c"]},"minItems":1,"maxItems":2}
},"required":["name","age","colour","tags"]}`

// asker is a server, of another implementation, whose tools ask their caller.
type asker struct {
	url       string
	begun     chan struct{} // gets one when the tool slow has begun
	cancelled chan struct{} // and when it was cancelled
}

// newAsker serves the legacy revisions or the modern one.
func newAsker(t *testing.T, modern bool) *asker {
	t.Helper()
	a := &asker{begun: make(chan struct{}, 1), cancelled: make(chan struct{}, 1)}
	versions := []string{"2025-11-25"}
	if modern {
		versions = []string{"2026-07-28"}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "asker", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: versions})
	for name, params := range map[string]*sdk.ElicitParams{
		"form":    {Mode: "form", Message: "Tell me\nabout you", RequestedSchema: json.RawMessage(everyField)},
		"hostile": {Mode: "form", Message: "red \x1b[31m\u202etext\n  Send this? yes", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"x\u001b[2J":{"type":"boolean","title":"\u001b]0;title\u0007"}}}`)},
		"visit":   {Mode: "url", Message: "Pay first", URL: "https://pay.example.com/way?to=1", ElicitationID: "1"},
	} {
		asks(s, name, params, modern)
	}
	asks(s, "sample", &sdk.CreateMessageParams{ //nolint:staticcheck // servers of today still do
		MaxTokens: 1, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "hi"}}}, //nolint:staticcheck // the same
	}, modern)
	s.AddTool(&sdk.Tool{Name: "slow", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 3 {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 10, Message: "reading \x1b[31mpages"})
		}
		a.begun <- struct{}{}
		<-ctx.Done()
		a.cancelled <- struct{}{}
		return nil, ctx.Err()
	})
	s.AddTool(&sdk.Tool{Name: "insist", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		question := &sdk.ElicitParams{Mode: "form", Message: "Well?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}}}`)}
		for range 2 {
			if _, err := r.Session.Elicit(ctx, question); err != nil {
				return nil, err
			}
		}
		a.cancelled <- struct{}{}
		return &sdk.CallToolResult{}, nil
	})
	server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: modern}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// asks adds a tool that returns the answer to a question.
func asks(s *sdk.Server, name string, question sdk.InputRequest, modern bool) {
	s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		said := func(answer any) (*sdk.CallToolResult, error) {
			text, err := json.Marshal(answer)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "heard " + string(text)}}}, err
		}
		if modern {
			if answer := r.Params.InputResponses["it"]; answer != nil {
				return said(answer)
			}
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"it": question}, RequestState: "state"}, nil
		}
		switch q := question.(type) {
		case *sdk.ElicitParams:
			answer, err := r.Session.Elicit(ctx, q)
			if err != nil {
				return nil, err
			}
			return said(answer)
		case *sdk.CreateMessageParams: //nolint:staticcheck // servers of today still do
			answer, err := r.Session.CreateMessage(ctx, q) //nolint:staticcheck // servers of today still do
			if err != nil {
				return nil, err
			}
			return said(answer)
		}
		return nil, fmt.Errorf("%T cannot be asked", question)
	})
}

// person types one answer after the other: what is waited for, and what is typed then.
func (p *typist) says(t *testing.T, dialogue ...string) {
	t.Helper()
	from := 0
	for i := 0; i+1 < len(dialogue); i += 2 {
		testwait.Until(t, patience, "it says "+dialogue[i], func() bool { return strings.Contains(p.Written()[from:], dialogue[i]) })
		from += strings.Index(p.Written()[from:], dialogue[i]) + len(dialogue[i])
		p.types(t, dialogue[i+1])
	}
}

// What a tool asks is asked on the terminal, whichever revision its server speaks, of a
// gateway that runs and of one that runs for the command.
func TestQuestionsOnATerminal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ modern, running bool }{
		"legacy":        {false, true},
		"modern":        {true, true},
		"legacy, alone": {false, false},
		"modern, alone": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, h := newAsker(t, tt.modern), newHome(t)
			h.write(t, servers{"a": {"type": "http", "url": a.url}}, nil)
			if tt.running {
				h.up(t)
			}
			p := h.onTerminal(t, "call", "a__form", "-c", h.file)
			p.says(t,
				"  | [a] Tell me\r\n  | about you\r\n", "",
				"Your name (name): text of at least 3 characters, required\r\n  | As on the door\r\n  > ", "Al\n", "type at least 3 characters; these are 2\r\n  > ", "Ada\n",
				"mail: a mail address, optional\r\n  > ", "ada\n", "type a mail address", "ada@example.com\n",
				"age: a whole number from 18 to 120, required", "17\n", "at least 18", "1.5\n", "a whole number, such as 3", "30\n",
				"rate: a number, optional\r\n  [2.5]> ", "\n",
				"sure: yes or no, optional\r\n  [no]> ", "yes\n",
				"colour: one value, required\r\n     1  Red (red)\r\n     2  Green (green)\r\n  number> ", "\n", "type a number from 1 to 2", "2\n",
				"[Large]> ", "\n",
				"tags: 1 to 2 values, required", "1,2,3\n", "choose 1 to 2 values", "1, c\n",
				"  Your name (name): Ada\r\n", "", "  tags: a, c\r\n  Send this? yes, no (declines), edit or cancel> ", "yes\n",
			)
			want := `heard {"action":"accept","content":{"age":30,"colour":"green","mail":"ada@example.com","name":"Ada","rate":2.5,"size":"l","sure":true,"tags":["a","c"]}}`
			if code := <-p.ended; code != exitOK || !strings.Contains(p.Written(), want) {
				t.Fatalf("exit code %d: %s", code, p.Written())
			}
			p = h.onTerminal(t, "call", "a__visit", "-c", h.file)
			p.says(t, "  | [a] Pay first\r\n", "", "  host     pay.example.com\r\n", "", "Done? yes, no (declines) or cancel> ", "y\n")
			if code := <-p.ended; code != exitOK || !strings.Contains(p.Written(), `heard {"action":"accept"}`) {
				t.Errorf("exit code %d: %s", code, p.Written())
			}
		})
	}
}

// A question is declined or cancelled, and what a server writes into it does nothing to the
// terminal and passes for nothing that toolgate says.
func TestQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, h := newAsker(t, modern), newHome(t)
			h.write(t, servers{"a": {"type": "http", "url": a.url}}, nil)
			h.up(t)
			for _, tt := range []struct{ tool, typed, want string }{
				{"hostile", "\x04", `"action":"decline"`}, // Ctrl-D
				{"hostile", "\x03", `"action":"cancel"`},  // Ctrl-C
				{"hostile", "y\nno\n", `"action":"decline"`},
				{"hostile", "y\nc\n", `"action":"cancel"`},
				{"hostile", "\nedit\nyes\ny\n", `\u001b[2J`},
				{"visit", "no\n", `"action":"decline"`},
			} {
				p := h.onTerminal(t, "call", "a__"+tt.tool, "-c", h.file)
				p.says(t, "> ", tt.typed)
				if code := <-p.ended; code != exitOK || !strings.Contains(p.Written(), tt.want) {
					t.Errorf("%s, %q: exit code %d: %s", tt.tool, tt.typed, code, p.Written())
				}
				if shown := p.Written(); strings.ContainsAny(shown, "\x1b\x07\u202e") && !strings.Contains(shown, "... ") || strings.Contains(shown, "\r\n  Send this? yes\r\n") {
					t.Errorf("the terminal gets %q", shown)
				}
			}
			o := h.run(t, "call", "a__hostile", "-c", h.file)
			if o.code != exitTool || !strings.Contains(o.stdout, `"action":"cancel"`) || !strings.Contains(o.stderr, "a__hostile asks \"[a] red") || !strings.Contains(o.stderr, "run the command on a terminal to answer") {
				t.Errorf("without a terminal: %+v", o)
			}
			o = h.run(t, "call", "a__sample", "-c", h.file)
			if o.code != exitTool || modern && !strings.Contains(o.stdout, `asked for "sampling/createMessage", which this client or the operator does not allow`) {
				t.Errorf("sampling: %+v", o)
			}
			p := h.onTerminal(t, "call", "a__hostile", "-c", h.file)
			p.says(t, "> ", "\x03")
			if code := <-p.ended; code != exitOK {
				t.Errorf("exit code %d: %s", code, p.Written())
			}
		})
	}
}

// A slow call shows its progress in one line, and Ctrl-C reaches its server.
func TestSlowCallOnATerminal(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"running": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, h := newAsker(t, false), newHome(t)
			h.write(t, servers{"a": {"type": "http", "url": a.url}}, nil)
			if running {
				h.up(t)
			}
			p := h.onTerminal(t, "call", "a__slow", "-c", h.file)
			<-a.begun
			p.says(t, "a__slow  3 of 10  reading \uFFFD[31mpages ... ", "\x03")
			if code := <-p.ended; code != exitUnreachable || !strings.Contains(p.Written(), "a__slow was cancelled: its server is told to stop") {
				t.Errorf("exit code %d: %s", code, p.Written())
			}
			select {
			case <-a.cancelled:
			case <-t.Context().Done():
				t.Error("the server was not told")
			}
		})
	}
}

// The first Ctrl-C cancels the question and the second one the call, whose server gets an
// answer all the same.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	a, h := newAsker(t, false), newHome(t)
	h.write(t, servers{"a": {"type": "http", "url": a.url}}, nil)
	h.up(t)
	p := h.onTerminal(t, "call", "a__insist", "-c", h.file)
	p.says(t, "> ", "\x03", "  cancelled\r\n", "", "a__insist asks:", "", "> ", "\x03")
	if code := <-p.ended; code != exitUnreachable || !strings.Contains(p.Written(), "a__insist was cancelled: its server is told to stop") {
		t.Errorf("exit code %d: %s", code, p.Written())
	}
	select {
	case <-a.cancelled:
	case <-t.Context().Done():
		t.Error("the server waits for an answer")
	}
}

// Whoever may approve of their own call is asked on the terminal. Elsewhere the call says
// who else is waited for.
func TestOwnApprovalOnATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, map[string]any{
		"governance": map[string]any{"tools": map[string]any{"a__pid": map[string]any{"requires_approval_in_modes": []string{"NORMAL"}}}},
		"approvals":  map[string]any{"wait": "1s"},
	})
	h.up(t)
	h.ok(t, "ls", h.file, "--wait", "20s")
	if o := h.run(t, "call", "a__pid", "-c", h.file); o.code != exitDenied {
		t.Errorf("without a terminal: %+v", o)
	}
	p := h.onTerminal(t, "call", "a__pid", "-c", h.file)
	p.says(t, "  | May a__pid be called at the server a?", "", "Accept? yes, no (declines) or cancel> ", "c\n", "Accept? yes, no (declines) or cancel> ", "c\n")
	if code := <-p.ended; code != exitDenied || !strings.Contains(p.Written(), "it waits for an approval") {
		t.Errorf("cancelled: exit code %d: %s", code, p.Written())
	}
	p = h.onTerminal(t, "call", "a__pid", "-c", h.file)
	p.says(t, "Accept? yes, no (declines) or cancel> ", "yes\n")
	if code := <-p.ended; code != exitOK {
		t.Errorf("approved: exit code %d: %s", code, p.Written())
	}
}
