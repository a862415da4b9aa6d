package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/agents/model"
)

// script is a model that says what a function says. It is safe for concurrent use.
type script struct {
	mu   sync.Mutex
	say  func(n int, r *model.Request) (*model.Turn, error) // n counts from 0
	seen []model.Request
}

func (s *script) Infer(ctx context.Context, r *model.Request, _ func(model.Delta)) (*model.Turn, error) {
	s.mu.Lock()
	n := len(s.seen)
	own := *r
	own.Messages = slices.Clone(r.Messages)
	s.seen = append(s.seen, own)
	s.mu.Unlock()
	turn, err := s.say(n, r)
	if turn == nil && err == nil { // it hangs
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return turn, err
}

// turns is a model that says some turns, and the last one for ever.
func turns(all ...*model.Turn) func(int, *model.Request) (*model.Turn, error) {
	return func(n int, _ *model.Request) (*model.Turn, error) { return all[min(n, len(all)-1)], nil }
}

var usage = model.Usage{Input: 100, Output: 10, Known: true}

func says(text string) *model.Turn {
	return &model.Turn{Message: model.Message{Text: text}, Stop: model.StopEnd, Usage: usage}
}

// calls is a turn that calls tools: "name {args}" each.
func calls(all ...string) *model.Turn {
	t := &model.Turn{Stop: model.StopCalls, Usage: usage}
	for i, c := range all {
		name, args, _ := strings.Cut(c, " ")
		if args == "" {
			args = "{}"
		}
		t.Calls = append(t.Calls, model.Call{ID: fmt.Sprint("c", i), Tool: name, Args: json.RawMessage(args)})
	}
	return t
}

// caller makes nested calls by a function, and records them.
type caller struct {
	mu    sync.Mutex
	tools []mcp.NestedTool
	call  func(ctx context.Context, c mcp.NestedCall) mcp.NestedAnswer // nil echoes
	made  []string
	as    []mcp.NestedAs
	now   int
	most  int
}

func tool(name string) mcp.NestedTool {
	return mcp.NestedTool{Name: name, Description: "d", Input: []byte(`{"type":"object"}`)}
}

func (c *caller) Tools(_ context.Context, as mcp.NestedAs) ([]mcp.NestedTool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.as = append(c.as, as)
	return c.tools, nil
}

func (c *caller) Call(ctx context.Context, as mcp.NestedAs, call mcp.NestedCall) mcp.NestedAnswer {
	c.mu.Lock()
	c.made, c.as = append(c.made, call.Tool+" "+string(call.Args)), append(c.as, as)
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}()
	if c.call != nil {
		return c.call(ctx, call)
	}
	return text("did " + call.Tool)
}

func text(s string) mcp.NestedAnswer {
	return mcp.NestedAnswer{CallID: "id", Delivered: true, Result: append(mcp.AppendQuote([]byte(`{"content":[{"type":"text","text":`), s), "}]}"...)}
}

// memory is a journal in memory.
type memory struct {
	mu    sync.Mutex
	steps []agents.Step
	saves int
	at    func(saves int, steps []agents.Step) error // before each; nil does nothing
}

func (m *memory) Save(_ context.Context, steps ...agents.Step) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	if m.at != nil {
		if err := m.at(m.saves, steps); err != nil {
			return err
		}
	}
	for i := range steps {
		s := steps[i]
		switch {
		case s.Seq == len(m.steps):
			m.steps = append(m.steps, s)
		case s.Seq > len(m.steps):
			for len(m.steps) < s.Seq { // saved before an earlier one, by another goroutine
				m.steps = append(m.steps, agents.Step{Seq: len(m.steps), State: "hole"})
			}
			m.steps = append(m.steps, s)
		case m.steps[s.Seq].State == "hole":
			m.steps[s.Seq] = s
		case m.steps[s.Seq].State == agents.Begun:
			s.Asked, s.BegunAt = m.steps[s.Seq].Asked, m.steps[s.Seq].BegunAt
			m.steps[s.Seq] = s
		default:
			return fmt.Errorf("the step %d has ended", s.Seq)
		}
	}
	return nil
}

// purse is a budget of tokens, which counts exactly.
type purse struct {
	mu       sync.Mutex
	limit    int64
	reserved map[string]int64
	settled  map[string]int64
}

func newPurse(limit int64) *purse {
	return &purse{limit: limit, reserved: map[string]int64{}, settled: map[string]int64{}}
}

func (p *purse) used() (n int64) {
	for _, v := range p.reserved {
		n += v
	}
	for _, v := range p.settled {
		n += v
	}
	return n
}

func (p *purse) Reserve(_ context.Context, r agents.Reservation) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := fmt.Sprint(r.Run, " ", r.Seq)
	if _, again := p.reserved[k]; again {
		return nil
	}
	if p.used()+r.Tokens > p.limit {
		return &agents.Exhausted{Reason: "The budget tokens is used up."}
	}
	p.reserved[k] = r.Tokens
	return nil
}

func (p *purse) Settle(_ context.Context, r, used agents.Reservation) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := fmt.Sprint(r.Run, " ", r.Seq)
	if _, ok := p.reserved[k]; ok {
		delete(p.reserved, k)
		p.settled[k] = used.Tokens
	}
	return nil
}

// settings are those of an agent for tests.
func settings() *agents.Settings {
	return &agents.Settings{Model: "m", Instructions: "Be brief.", MaxTurns: 5, Timeout: 10 * time.Minute, MaxTokens: 1000, Context: 100_000, Prices: agents.Prices{Input: 1_000_000, Output: 2_000_000}}
}

// rig is a run of an agent with two tools.
type rig struct {
	*agents.Run
	model   *script
	tools   *caller
	journal *memory
}

func newRig(say func(int, *model.Request) (*model.Turn, error)) *rig {
	r := &rig{model: &script{say: say}, tools: &caller{tools: []mcp.NestedTool{tool("fs__read"), tool("fs__write")}}, journal: &memory{}}
	r.tools.tools[0].ReadOnly = true
	r.Run = &agents.Run{
		ID: "run_1", Agent: "researcher", Settings: settings(), Task: &agents.Task{Task: "do it"}, Model: r.model, Tools: r.tools, Journal: r.journal,
		Log: slog.New(slog.DiscardHandler),
	}
	return r
}

// do works on the run until its end.
func (r *rig) do(t *testing.T) *agents.Outcome {
	t.Helper()
	o, err := r.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// again returns a rig that goes on with the steps of this one.
func (r *rig) again(say func(int, *model.Request) (*model.Turn, error)) *rig {
	next := newRig(say)
	next.Task, next.Settings, next.Budget = r.Task, r.Settings, r.Budget
	next.Steps, next.journal.steps = slices.Clone(r.journal.steps), slices.Clone(r.journal.steps)
	return next
}

// results are the texts of all results that a request has.
func results(r *model.Request) (all []string) {
	for _, m := range r.Messages {
		for _, one := range m.Results {
			all = append(all, one.Text)
		}
	}
	return all
}
