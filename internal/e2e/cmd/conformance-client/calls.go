//go:build e2e && unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
)

// call makes a request that may ask questions, and returns its final result. A modern
// client answers in rounds: it sends the same request again, with the answers and the
// state of the questions.
func (c *client) call(ctx context.Context, method string, params object) (json.RawMessage, error) {
	for range maxRounds {
		result, err := c.request(ctx, method, params)
		if err != nil {
			return nil, err
		}
		var round struct {
			ResultType    *string            `json:"resultType"`
			InputRequests map[string]message `json:"inputRequests"`
			RequestState  *string            `json:"requestState"`
		}
		if err := json.Unmarshal(result, &round); err != nil {
			return nil, fmt.Errorf("reading the result of %s: %w", method, err)
		}
		switch {
		case c.era == legacy && round.ResultType != nil && *round.ResultType != "complete":
			return nil, fmt.Errorf("%s returned to a legacy client: %s", method, result)
		case c.era == legacy:
			return result, nil
		case round.ResultType == nil:
			return nil, fmt.Errorf("%s returned to a modern client without a resultType: %s", method, result)
		case *round.ResultType == "complete":
			return result, nil
		case *round.ResultType != "input_required" || len(round.InputRequests) == 0:
			return nil, fmt.Errorf("%s returned what this client does not know: %s", method, result)
		}
		answers := object{}
		for key, q := range round.InputRequests {
			if answers[key], err = c.answer(ctx, q.Method, q.Params); err != nil {
				return nil, err
			}
		}
		params = maps.Clone(params)
		params["inputResponses"] = answers
		delete(params, "requestState")
		if round.RequestState != nil {
			params["requestState"] = *round.RequestState
		}
	}
	return nil, fmt.Errorf("%s asks in more than %d rounds", method, maxRounds)
}

// text calls a tool and returns the text that it answers with.
func (c *client) text(ctx context.Context, tool string, arguments any) (string, error) {
	result, err := c.call(ctx, "tools/call", object{"name": tool, "arguments": arguments})
	if err != nil {
		return "", fmt.Errorf("calling %s: %w", tool, err)
	}
	var r struct {
		IsError bool `json:"isError"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(result, &r); err != nil || r.IsError || len(r.Content) != 1 || r.Content[0].Type != "text" {
		return "", fmt.Errorf("calling %s returned %s (%w)", tool, result, err)
	}
	return r.Content[0].Text, nil
}

// expect calls a tool that must answer with want.
func (c *client) expect(ctx context.Context, tool string, arguments any, want string) error {
	text, err := c.text(ctx, tool, arguments)
	if err == nil && text != want {
		err = fmt.Errorf("%s answered %q, want %q", tool, text, want)
	}
	return err
}

// list returns all items of one kind.
func (c *client) list(ctx context.Context, method, field string) ([]map[string]json.RawMessage, error) {
	var all []map[string]json.RawMessage
	params := object{}
	for range maxPages {
		result, err := c.request(ctx, method, params)
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		var items []map[string]json.RawMessage
		var cursor *string
		err = json.Unmarshal(result, &page)
		if err == nil {
			err = json.Unmarshal(page[field], &items)
		}
		if err == nil && page["nextCursor"] != nil {
			err = json.Unmarshal(page["nextCursor"], &cursor)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", method, err)
		}
		all = append(all, items...)
		if cursor == nil {
			return all, nil
		}
		params = object{"cursor": *cursor}
	}
	return nil, fmt.Errorf("%s has more than %d pages", method, maxPages)
}
