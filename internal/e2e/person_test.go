//go:build e2e && unix

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/e2e/fixture"
	"github.com/toolgate/toolgate/internal/testwait"
)

// link is one server, or toolgate, and the calls that a driver makes there.
type link struct {
	URL   string   `json:"url"`
	Key   string   `json:"key,omitempty"`
	Lanes [][]call `json:"lanes"` // each one after the other

	// In place of those of the target.
	Transport string `json:"transport,omitempty"`
	Era       string `json:"era,omitempty"`
}

// call is one call of a link.
type call struct {
	ID     string `json:"id"`
	Method string `json:"method"` // tools/call, prompts/get, or tools/list for the names
	Name   string `json:"name"`
	Canary string `json:"canary"` // the only argument where there are no others

	Args        object `json:"args,omitempty"`
	Progress    bool   `json:"progress,omitempty"`    // its progress is counted
	CancelAfter int    `json:"cancelAfter,omitempty"` // milliseconds
	Until       string `json:"until,omitempty"`       // it is repeated for a while until its text has this
	Task        bool   `json:"task,omitempty"`        // it runs as a task
}

// returned is what came back to a call: a text, or an error.
type returned struct {
	Text     string `json:"text"`
	Error    string `json:"error,omitempty"`
	Progress int    `json:"progress,omitempty"`
}

// callTimeout bounds one call of a link, as in the drivers of other languages.
const callTimeout = 20 * time.Second

// person answers the questions that reach one Go client, as Person of
// node/ask.mjs does. It is safe for concurrent use.
type person struct {
	secret string

	mu    sync.Mutex
	asked []string
}

func (p *person) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, text)
}

// fill answers an elicitation; ok is false to decline.
func (p *person) fill(message string) (content map[string]any, ok bool) {
	p.note(message)
	if strings.HasSuffix(message, "please decline") {
		return nil, false
	}
	if strings.Contains(message, "asks you to run") {
		return map[string]any{"output": p.secret}, true
	}
	return map[string]any{"word": p.secret + "|" + message}, true
}

func (p *person) continueText(text string) string {
	p.note(text)
	return p.secret + "|" + text
}

func (p *person) home() string { return "file:///home/" + p.secret }

// answerGoSDK has a client of the official SDK declare and answer everything.
// Its roots are a list of the client, so that it does not see who asks for them.
func (p *person) answerGoSDK(o *mcp.ClientOptions) {
	o.Capabilities = &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{}}
	o.ElicitationHandler = func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		content, ok := p.fill(req.Params.Message)
		if !ok {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}
	o.CreateMessageHandler = func(_ context.Context, req *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
		if n := len(req.Params.Messages); n != 1 {
			return nil, fmt.Errorf("%d messages were sent, not one", n)
		}
		text, ok := req.Params.Messages[0].Content.(*mcp.TextContent)
		if !ok {
			return nil, errors.New("the message is not text")
		}
		return &mcp.CreateMessageResult{
			Role: "assistant", Model: "none", Content: &mcp.TextContent{Text: p.continueText(text.Text)},
		}, nil
	}
}

func (p *person) goSDKRoot() *mcp.Root { return &mcp.Root{URI: p.home(), Name: "home"} }

// mcpGoPerson answers in a client of mcp-go.
type mcpGoPerson struct{ *person }

func (p mcpGoPerson) Elicit(_ context.Context, req mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	answer := mcpgo.ElicitationResponse{Action: mcpgo.ElicitationResponseActionDecline}
	if content, ok := p.fill(req.Params.Message); ok {
		answer = mcpgo.ElicitationResponse{Action: mcpgo.ElicitationResponseActionAccept, Content: content}
	}
	return &mcpgo.ElicitationResult{ElicitationResponse: answer}, nil
}

func (p mcpGoPerson) CreateMessage(_ context.Context, req mcpgo.CreateMessageRequest) (*mcpgo.CreateMessageResult, error) {
	if n := len(req.Messages); n != 1 {
		return nil, fmt.Errorf("%d messages were sent, not one", n)
	}
	text := mcpgo.GetTextFromContent(req.Messages[0].Content)
	return &mcpgo.CreateMessageResult{
		SamplingMessage: mcpgo.SamplingMessage{Role: mcpgo.RoleAssistant, Content: mcpgo.NewTextContent(p.continueText(text))},
		Model:           "none",
	}, nil
}

func (p mcpGoPerson) ListRoots(context.Context, mcpgo.ListRootsRequest) (*mcpgo.ListRootsResult, error) {
	p.note("roots")
	return &mcpgo.ListRootsResult{Roots: []mcpgo.Root{{URI: p.home(), Name: "home"}}}, nil
}

// runCalls makes the calls of every link with a Go client that answers as a
// person does.
func runCalls(
	ctx context.Context, name string, t target,
	dial func(context.Context, target) (adapter, func() error, error),
) report {
	who := &person{secret: t.Secret}
	r := report{Client: name, Answers: map[string]returned{}}
	for _, l := range t.Links {
		to := t
		to.URL, to.Key, to.person = l.URL, l.Key, who
		to.Transport, to.Era = cmp.Or(l.Transport, t.Transport), cmp.Or(l.Era, t.Era)
		a, stop, err := dial(ctx, to)
		if err != nil {
			r.Error = err.Error()
			return r
		}
		r.Protocol = a.Protocol()
		r.Protocols = append(r.Protocols, r.Protocol)
		l.callAll(ctx, a, t.AtOnce, r.Answers)
		if err := stop(); err != nil {
			r.Error = fmt.Sprintf("closing: %v", err)
			return r
		}
	}
	who.mu.Lock()
	defer who.mu.Unlock()
	r.Asked = who.asked
	return r
}

// callAll makes every call of the link, a few lanes at once, and puts down what
// came back.
func (l *link) callAll(ctx context.Context, a adapter, atOnce int, into map[string]returned) {
	var mu sync.Mutex
	var all sync.WaitGroup
	next := make(chan []call)
	for range atOnce {
		all.Go(func() {
			for lane := range next {
				for _, c := range lane {
					got := c.make(ctx, a)
					mu.Lock()
					into[c.ID] = got
					mu.Unlock()
				}
			}
		})
	}
	for _, lane := range l.Lanes {
		next <- lane
	}
	close(next)
	all.Wait()
}

// untilTime is how long a call is repeated, as in the drivers of other languages.
const untilTime = 5 * time.Second

// make makes the call, again and again where it waits for something.
func (c *call) make(ctx context.Context, a adapter) (got returned) {
	testwait.Within(untilTime, func() bool {
		got = c.once(ctx, a)
		return c.Until == "" || strings.Contains(got.Text, c.Until)
	})
	return got
}

func (c *call) once(ctx context.Context, a adapter) returned {
	limit := callTimeout
	if c.CancelAfter > 0 {
		limit = time.Duration(c.CancelAfter) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var got returned
	var err error
	switch c.Method {
	case "tools/list":
		var names []string
		names, err = a.Tools(ctx)
		got.Text = strings.Join(names, " ")
	case "prompts/get":
		got.Text, err = a.Prompt(ctx, c.Name, map[string]string{"canary": c.Canary})
	default:
		got, err = c.tool(ctx, a)
	}
	if err != nil {
		got.Error = err.Error()
	}
	return got
}

func (c *call) tool(ctx context.Context, a adapter) (returned, error) {
	args := c.Args
	if args == nil {
		args = object{fixture.Canary: c.Canary}
	}
	data, err := json.Marshal(args)
	if err != nil {
		return returned{}, fmt.Errorf("writing arguments: %w", err)
	}
	var seen atomic.Int64
	var onProgress func(float64)
	if c.Progress {
		onProgress = func(float64) { seen.Add(1) }
	}
	result, err := a.Call(ctx, c.Name, string(data), onProgress)
	return returned{Text: result.Text, Progress: int(seen.Load())}, err
}
