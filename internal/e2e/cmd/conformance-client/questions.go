//go:build e2e && unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// errUnasked is the answer to a question that this client did not offer.
var errUnasked = errors.New("not offered")

// answer returns the result of a question of the server.
func (c *client) answer(ctx context.Context, method string, params json.RawMessage) (object, error) {
	if method == "ping" {
		return object{}, nil
	}
	if c.meanwhile != nil {
		if err := c.meanwhile(ctx); err != nil {
			return nil, err
		}
	}
	switch method {
	case "elicitation/create":
		return fillIn(params)
	case "sampling/createMessage":
		return object{"role": "assistant", "model": "none", "content": object{"type": "text", "text": "sampled"}}, nil
	case "roots/list":
		return object{"roots": []object{}}, nil
	}
	return nil, fmt.Errorf("%w: %s", errUnasked, method)
}

// fillIn accepts a form with the default of every field that has one, and with yes in
// every other field that can be yes.
func fillIn(params json.RawMessage) (object, error) {
	var form struct {
		RequestedSchema struct {
			Properties map[string]struct {
				Type    string          `json:"type"`
				Default json.RawMessage `json:"default"`
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &form); err != nil {
		return nil, fmt.Errorf("reading a form: %w", err)
	}
	content := object{}
	for name, field := range form.RequestedSchema.Properties {
		switch {
		case field.Default != nil:
			content[name] = field.Default
		case field.Type == "boolean":
			content[name] = true
		}
	}
	return object{"action": "accept", "content": content}, nil
}

// reply answers a request of the server, which only a legacy client gets.
func (c *client) reply(ctx context.Context, q message) {
	if c.era == modern {
		c.blame(fmt.Errorf("%s was sent as a request to a modern client", q.Method))
	}
	answer := object{"jsonrpc": "2.0", "id": q.ID}
	result, err := c.answer(ctx, q.Method, q.Params)
	if err != nil {
		c.blame(fmt.Errorf("a question: %w", err))
		answer["error"] = object{"code": -32601, "message": err.Error()}
	} else {
		answer["result"] = result
	}
	if err := c.write(answer); err != nil {
		c.blame(err)
	}
}
