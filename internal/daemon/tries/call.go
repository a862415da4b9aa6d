package tries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	// maxAsked bounds how often a tool asks during one call.
	maxAsked = 100
	// maxQuestions bounds the questions of one round, in bytes.
	maxQuestions = 256 << 10
	// againAfter is how long a server that wants to be called again, and asks nothing, is
	// left alone.
	againAfter = time.Second
)

// What ends a call before it has a result.
var (
	errCancelled = errors.New("it was cancelled; its server is told to stop, but may have done a part already")
	errTime      = errors.New("its time is over; its server is told to stop, but may have done a part already")
	errAccess    = errors.New("its caller is not let in any more")
	errEnds      = errors.New("the gateway ends")
)

// call is one call by hand.
type call struct {
	owner  owner
	cancel context.CancelCauseFunc
	params []byte // of tools/call

	mu      sync.Mutex // guards all that follows
	t       admin.Try
	text    int                        // bytes of the messages that are kept
	changed chan struct{}              // closed when something changes
	said    map[string]json.RawMessage // the answers of this round; nil before
	answer  chan struct{}              // closed when they are there
}

func newCall(of owner, id string, n *admin.NewTry, cancel context.CancelCauseFunc) *call {
	args := n.Arguments
	params := append([]byte(`{"name":`), mcp.Quote(n.Tool)...)
	params = append(append(append(params, `,"arguments":`...), args...), '}')
	c := &call{owner: of, cancel: cancel, params: params, changed: make(chan struct{})}
	c.t = admin.Try{ID: id, Tool: n.Tool, State: admin.TryRuns, Begun: time.Now()}
	if len(args) <= messageText {
		c.t.Arguments = slices.Clone(args)
	}
	return c
}

// change changes what is shown of the call.
func (c *call) change(f func(t *admin.Try)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.t)
	c.t.Revision++
	close(c.changed)
	c.changed = make(chan struct{})
}

// shown returns what is shown of the call, and a channel that is closed when that changes.
func (c *call) shown() (admin.Try, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.t
	t.Messages = slices.Clone(t.Messages)
	return t, c.changed
}

// kept is how many bytes the call holds, and whether it is over.
func (c *call) kept() (size int, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text + len(c.t.Arguments), c.t.State == admin.TryOver
}

// keep keeps a message, and in the place of one in the middle where there are too many.
func (c *call) keep(m admin.TryMessage) {
	c.change(func(t *admin.Try) {
		if len(t.Messages) == maxMessages {
			const middle = maxMessages / 2
			c.text -= len(t.Messages[middle].Text)
			t.Messages = slices.Delete(t.Messages, middle, middle+1)
			t.Missed++
		}
		c.text += len(m.Text)
		t.Messages = append(t.Messages, m)
	})
}

// room is how much of the next message is kept.
func (c *call) room() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(leastText, min(messageText, callText-c.text))
}

// run makes the call, and goes on with it for as long as the tool asks.
func (c *call) run(ctx context.Context, client *lineclient.Client) {
	params := c.params
	for range maxAsked {
		result, err := client.Request(ctx, mcp.MethodToolsCall, params)
		switch kind, _ := mcp.LookupString(result, "resultType"); {
		case err != nil:
			c.failed(ctx, err)
			return
		case kind != mcp.ResultInputRequired:
			c.done(result)
			return
		}
		answers, err := c.ask(ctx, mcp.Lookup(result, "inputRequests"))
		params = continued(c.params, answers, mcp.Lookup(result, "requestState"))
		if err != nil {
			client.Abandon(ctx, mcp.MethodToolsCall, params)
			c.failed(ctx, err)
			return
		}
	}
	c.end(admin.TryFailed, fmt.Sprintf("it has asked %d times and is not called again", maxAsked), "")
}

// ask waits for the answers to the questions of a round. With an error the answers cancel
// what was asked.
func (c *call) ask(ctx context.Context, asked []byte) (answers []byte, err error) {
	questions, err := questionsOf(asked)
	cancels := func() []byte {
		var all []byte
		for m := range mcp.Members(asked) {
			if key, err := mcp.Unquote(m.Key(asked)); err == nil {
				all = mcp.SetMember(all, key, []byte(`{"action":"cancel"}`))
			}
		}
		return all
	}
	switch {
	case err != nil:
		return cancels(), err
	case len(questions) == 0: // the server wants to be called again
		timer := time.NewTimer(againAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	answer := make(chan struct{})
	c.change(func(t *admin.Try) {
		t.State, t.Questions, c.said, c.answer = admin.TryAsks, questions, nil, answer
		t.Round++
	})
	select {
	case <-answer:
	case <-ctx.Done():
		return cancels(), context.Cause(ctx)
	}
	c.mu.Lock()
	said := c.said
	c.mu.Unlock()
	for _, q := range questions {
		answers = mcp.SetMember(answers, q.Key, said[q.Key])
	}
	return answers, nil
}

// questionsOf reads the questions of a round. The error says what nobody can answer here.
func questionsOf(asked []byte) ([]admin.TryQuestion, error) {
	if len(asked) > maxQuestions {
		return nil, fmt.Errorf("it asks with %d bytes, which are not shown; %d are the most", len(asked), maxQuestions)
	}
	var all []admin.TryQuestion
	for m := range mcp.Members(asked) {
		key, err := mcp.Unquote(m.Key(asked))
		if err != nil {
			return nil, fmt.Errorf("a question has a name that cannot be read: %w", err)
		}
		request := m.Value.Of(asked)
		q := admin.TryQuestion{Key: key, Params: slices.Clone(mcp.Lookup(request, "params"))}
		if q.Method, _ = mcp.LookupString(request, "method"); q.Method != mcp.MethodElicit {
			return nil, fmt.Errorf("it asks its client for something that a person cannot answer (%.100s); call it from another client", q.Method)
		}
		all = append(all, q)
	}
	return all, nil
}

// answered takes the answers to the questions of a round.
func (c *call) answered(round int, said map[string]json.RawMessage) error {
	var err error
	c.change(func(t *admin.Try) {
		if t.State != admin.TryAsks || t.Round != round {
			err = admin.ErrTryRound
			return
		}
		t.State, t.Questions, c.said = admin.TryRuns, nil, said
		close(c.answer)
	})
	return err
}

// done ends the call with its result.
func (c *call) done(result []byte) {
	outcome := admin.TryDone
	if string(mcp.Lookup(result, "isError")) == "true" {
		outcome = admin.TryFailed
	}
	facts := mcp.Lookup(result, "_meta", refusal.Key)
	if facts != nil {
		outcome = admin.TryRefused
	}
	approval, _ := mcp.LookupString(facts, "approval")
	c.end(outcome, "", approval)
}

// failed ends the call without a result.
func (c *call) failed(ctx context.Context, err error) {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.DeadlineExceeded) {
			cause = errTime
		}
		if errors.Is(cause, context.Canceled) {
			cause = errEnds
		}
		c.end(admin.TryCancelled, cause.Error(), "")
		return
	}
	approval := ""
	if fault, ok := errors.AsType[*mcp.Error](err); ok {
		approval, _ = mcp.LookupString(fault.Data, "approval")
		c.end(admin.TryRefused, fault.Message, approval)
		return
	}
	c.end(admin.TryFailed, err.Error(), approval)
}

func (c *call) end(outcome, problem, approval string) {
	c.change(func(t *admin.Try) {
		t.State, t.Outcome, t.Problem, t.Approval, t.Questions, t.Ended = admin.TryOver, outcome, problem, approval, nil, time.Now()
	})
}

// continued returns the params of a call that goes on with answers. state is nil if there
// is none, and must not be sent then.
func continued(params, answers, state []byte) []byte {
	if answers != nil {
		params = mcp.SetMember(params, "inputResponses", answers)
	}
	if state != nil {
		params = mcp.SetMember(params, "requestState", state)
	}
	return params
}
