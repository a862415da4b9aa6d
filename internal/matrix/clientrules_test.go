//go:build e2e

package matrix

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// receive takes one message of the gateway.
func (c *client) receive(raw []byte, from *origin) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 {
		c.broken("an empty message")
		return
	}
	msg, err := mcp.Parse(raw, mcp.Limits{})
	if err != nil {
		c.broken("got %s: %v", raw, err)
		return
	}
	switch msg.Kind {
	case mcp.KindResponse:
		c.answered(msg, from)
	case mcp.KindRequest:
		c.question(msg, from)
	case mcp.KindNotification:
		c.notified(msg, from)
	case mcp.KindInvalid:
	}
}

func (c *client) answered(msg mcp.Message, from *origin) {
	c.mu.Lock()
	req := c.pending[string(msg.ID)] // by its bytes: an id is echoed exactly
	c.mu.Unlock()
	if req != nil { // before anybody can have seen the answer
		if err := c.checkAnswer(&msg, req.method); err != nil {
			c.broken("%v: %s", err, excerpt(msg.Raw))
		}
	}
	if problem := c.settle(req, msg, from); problem != "" {
		c.broken("%s: %s", problem, msg.Raw)
	}
}

// settle hands an answer to the request that it is for and tells what is wrong
// with it.
func (c *client) settle(req *request, msg mcp.Message, from *origin) (problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wake()
	switch {
	case req == nil:
		return "an answer to nothing"
	case req.answer != nil:
		return "a second answer"
	case req.withdrawn:
		return "an answer to a cancelled request"
	case from != nil && from.req != req:
		return "an answer on the stream of another request"
	}
	req.answer = &msg
	delete(c.tokens, req.token)
	c.finish(req)
	return ""
}

// checkAnswer holds an answer to what a schema does not say.
func (c *client) checkAnswer(msg *mcp.Message, method string) error {
	result := msg.Result()
	if result == nil {
		return grammars()[c.kind.rev].check(serverRole, msg, method)
	}
	if !c.kind.modern() {
		for _, member := range []string{"resultType", "ttlMs", "cacheScope", "inputRequests"} {
			if mcp.Lookup(result, member) != nil {
				return fmt.Errorf("a result of %s has %s", c.kind.rev, member)
			}
		}
		if mcp.Lookup(result, "_meta", mcp.MetaServerInfo) != nil {
			return fmt.Errorf("a result of %s has %s", c.kind.rev, mcp.MetaServerInfo)
		}
	} else if name, _ := mcp.LookupString(result, "_meta", mcp.MetaServerInfo, "name"); name != "toolgate" && method != mcp.MethodListen {
		return errors.New("a result does not say that it is the gateway's")
	}
	return grammars()[c.kind.rev].check(serverRole, msg, method)
}

// finish ends the wait for a request; the mutex is held.
func (c *client) finish(req *request) {
	if !req.over {
		req.over = true
		close(req.done)
	}
}

func excerpt(raw []byte) string {
	if len(raw) > 2000 {
		return string(raw[:2000]) + "..."
	}
	return string(raw)
}

// question answers a request of the gateway.
func (c *client) question(msg mcp.Message, from *origin) {
	c.mu.Lock()
	twice := c.questions[msg.ID.Key()]
	c.questions[msg.ID.Key()] = true
	c.mu.Unlock()
	switch {
	case twice:
		c.broken("the id of a question is used twice: %s", msg.Raw)
	case from != nil && from.standalone:
		c.broken("a question on the standalone stream: %s", msg.Raw)
	}
	if err := grammars()[c.kind.rev].check(serverRole, &msg, ""); err != nil {
		c.broken("%v: %s", err, msg.Raw)
	}
	result := []byte(`{}`)
	if msg.Method != mcp.MethodPing {
		result = c.reply(msg.Method, msg.Params())
	}
	c.mu.Lock()
	c.asked = append(c.asked, msg)
	c.wake()
	c.mu.Unlock()
	c.running.Go(func() {
		if c.think != nil && !c.think(msg, from) {
			return
		}
		if err := c.link.send(mcp.AppendResult(nil, msg.ID, result), nil); err != nil && c.life.Err() == nil {
			c.broken("answer a question: %v", err)
		}
	})
}

func lookupPath(object []byte, path string) []byte {
	return mcp.Lookup(object, strings.Split(path, "/")...)
}

// reply is what the user says to a question. It repeats words of the question,
// so that nobody's answer passes for another's.
func (c *client) reply(method string, params []byte) []byte {
	if need := needed(method, params); !c.declares(need) {
		c.broken("asked for %s, which was not declared: %s", need, params)
	}
	said, _ := mcp.LookupString(params, "message")
	switch method {
	case mcp.MethodElicit:
		if mode, _ := mcp.LookupString(params, "mode"); mode == "url" {
			return []byte(`{"action":"accept"}`)
		}
		return []byte(`{"action":"accept","content":{"word":` + string(mcp.Quote(c.name+" on "+said)) + `,"n":9007199254740993}}`)
	case mcp.MethodSampling:
		messages := mcp.Lookup(params, "messages")
		for e := range mcp.Elements(messages) {
			said, _ = mcp.LookupString(e.Of(messages), "content", "text")
		}
		content := `{"type":"text","text":` + string(mcp.Quote(c.name+" on "+said)) + `}`
		stop := "endTurn"
		if mcp.Lookup(params, "tools") != nil {
			content = `[` + content + `,{"type":"tool_use","id":"t1","name":"calc","input":{"n":9007199254740993}}]`
			stop = "toolUse"
		}
		return []byte(`{"role":"assistant","model":"scripted","stopReason":"` + stop + `","content":` + content + `}`)
	default:
		return []byte(`{"roots":[{"uri":"file:///home/` + c.name + `","name":"home"}]}`)
	}
}

// declares tells whether the client declared a capability.
func (c *client) declares(path string) bool {
	return lookupPath([]byte(c.capabilities), path) != nil
}

func (c *client) notified(msg mcp.Message, from *origin) {
	if err := grammars()[c.kind.rev].check(serverRole, &msg, ""); err != nil {
		c.broken("%v: %s", err, msg.Raw)
	}
	if problem := c.file(msg, from); problem != "" {
		c.broken("%s: %s", problem, msg.Raw)
	}
}

// file puts a notification where it belongs and tells what is wrong with it.
func (c *client) file(msg mcp.Message, from *origin) (problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wake()
	if c.kind.modern() {
		if id := msg.Meta(mcp.MetaSubscriptionID); id != nil || msg.Method == mcp.NotifyAcknowledged {
			return c.fileSubscribed(msg, id, from)
		}
	}
	if from != nil && from.req != nil && from.req.answer != nil {
		return "a notification after the result"
	}
	switch msg.Method {
	case mcp.NotifyProgress:
		req := c.tokens[string(msg.Param(mcp.MetaProgressToken))]
		if req == nil {
			return "progress with a token that is not in use"
		}
		value, err := strconv.ParseFloat(string(msg.Param("progress")), 64)
		if err != nil || value <= req.progress {
			return "progress that does not grow"
		}
		if from != nil && from.req != req {
			return "progress on the stream of another request"
		}
		req.progress = value
		req.notes = append(req.notes, msg)
	case mcp.NotifyMessage:
		if from != nil && from.req != nil {
			from.req.notes = append(from.req.notes, msg)
		} else if c.kind.modern() && from != nil {
			return "a log message outside of its request"
		}
		c.aside = append(c.aside, msg)
	case mcp.NotifyCancelled:
		c.aside = append(c.aside, msg)
	default:
		if c.kind.modern() {
			return "a notification of no subscription"
		}
		if from != nil && !from.standalone {
			return "a notification that is not of this request on its stream"
		}
		c.aside = append(c.aside, msg)
	}
	return ""
}

// fileSubscribed files what carries a subscription id (2026-07-28
// basic/patterns/subscriptions); the mutex is held.
func (c *client) fileSubscribed(msg mcp.Message, id []byte, from *origin) string {
	req := c.pending[string(id)]
	switch {
	case req == nil || req.method != mcp.MethodListen:
		return "a subscription id that is not in use"
	case from != nil && from.req != req:
		return "a notification on the stream of another request"
	case req.withdrawn:
		return "" // it may have been on its way
	case req.acked == (msg.Method == mcp.NotifyAcknowledged):
		return "the acknowledgement does not come first, or twice"
	case req.answer != nil:
		return "a notification after the result"
	}
	req.acked = true
	filter := mcp.Lookup(req.params, "notifications")
	wanted := true
	switch msg.Method {
	case mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged:
		for _, kind := range []mcp.Kind{mcp.Tool, mcp.Prompt, mcp.Resource} {
			if kind.Changed() == msg.Method {
				wanted = string(mcp.Lookup(filter, kind.Feature()+"ListChanged")) == "true"
			}
		}
	case mcp.NotifyResourceUpdated:
		wanted = bytes.Contains(mcp.Lookup(filter, "resourceSubscriptions"), msg.Param("uri"))
	}
	if !wanted {
		return "a notification that was not asked for"
	}
	req.notes = append(req.notes, msg)
	return ""
}
