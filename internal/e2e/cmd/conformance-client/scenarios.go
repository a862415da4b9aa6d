//go:build e2e && unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// scenarios are what this client does in front of each scenario server of the
// suite. Each returns an error unless the answers are that server's own.
var scenarios = map[string]func(context.Context, *client) error{
	"initialize":                          lists,
	"tools_call":                          callsTool,
	"elicitation-sep1034-client-defaults": answersWithDefaults,
	"sse-retry":                           reconnects,
	"request-metadata":                    lists,
	"sep-2322-client-request-state":       answersRounds,
	"http-standard-headers":               callsEverything,
	"http-custom-headers":                 callsFromContext,
	"http-invalid-tool-headers":           callsWhatIsLeft,
	"json-schema-ref-no-deref":            keepsReference,
	"json-schema-2020-12-preservation":    returnsSchema,
}

// names lists the tools and returns their names, sorted.
func (c *client) names(ctx context.Context) ([]string, error) {
	tools, err := c.list(ctx, "tools/list", "tools")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, tool := range tools {
		all = append(all, unquote(tool["name"]))
	}
	slices.Sort(all)
	return all, nil
}

// has lists the tools, which must be exactly want.
func (c *client) has(ctx context.Context, want ...string) error {
	have, err := c.names(ctx)
	slices.Sort(want)
	if err == nil && !slices.Equal(have, want) {
		err = fmt.Errorf("listed are %q, want %q", have, want)
	}
	return err
}

// schema returns the input schema of a listed tool as its bytes.
func (c *client) schema(ctx context.Context, tool string) (json.RawMessage, error) {
	tools, err := c.list(ctx, "tools/list", "tools")
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if unquote(t["name"]) == tool {
			return t["inputSchema"], nil
		}
	}
	return nil, fmt.Errorf("%s is not listed", tool)
}

// unquote returns a JSON string, "" for anything else.
func unquote(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// lists is enough if the scenario judges how toolgate initializes the connection.
func lists(ctx context.Context, c *client) error {
	return c.has(ctx)
}

func callsTool(ctx context.Context, c *client) error {
	return errors.Join(
		c.has(ctx, "add_numbers"),
		c.expect(ctx, "add_numbers", object{"a": 5, "b": 3}, "The sum of 5 and 3 is 8"),
	)
}

func answersWithDefaults(ctx context.Context, c *client) error {
	const tool = "test_client_elicitation_defaults"
	if err := c.has(ctx, tool); err != nil {
		return err
	}
	_, err := c.text(ctx, tool, object{})
	return err
}

func reconnects(ctx context.Context, c *client) error {
	const tool = "test_reconnection"
	return errors.Join(
		c.has(ctx, tool),
		c.expect(ctx, tool, object{}, "Reconnection test completed successfully"),
	)
}

// answersRounds makes another call between the rounds of each call that asks, so that
// mixed-up states and answers would be noticed.
func answersRounds(ctx context.Context, c *client) error {
	unrelated := func(ctx context.Context) error {
		return c.expect(ctx, "test_mrtr_unrelated", object{}, "unrelated-ok")
	}
	asked := 0
	c.meanwhile = func(ctx context.Context) error {
		asked++ // one question at a time: each call is answered before the next
		return unrelated(ctx)
	}
	err := errors.Join(
		c.has(ctx, "test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"),
		c.expect(ctx, "test_mrtr_echo_state", object{}, "echo-state-ok"),
		c.expect(ctx, "test_mrtr_no_state", object{}, "no-state-ok"),
		unrelated(ctx),
		c.expect(ctx, "test_mrtr_no_result_type", object{}, "no-result-type-test-ok"),
	)
	if asked != 2 {
		err = errors.Join(err, fmt.Errorf("%d questions reached the client, want 2", asked))
	}
	return err
}

// callsEverything uses everything that has a name which a header repeats.
func callsEverything(ctx context.Context, c *client) error {
	names, err := c.names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, c.expect(ctx, name, object{}, "Headers test completed"))
	}
	resources, listing := c.list(ctx, "resources/list", "resources")
	err = errors.Join(err, listing)
	for _, r := range resources {
		_, reading := c.call(ctx, "resources/read", object{"uri": unquote(r["uri"])})
		err = errors.Join(err, reading)
	}
	prompts, listing := c.list(ctx, "prompts/list", "prompts")
	err = errors.Join(err, listing)
	for _, p := range prompts {
		_, getting := c.call(ctx, "prompts/get", object{"name": unquote(p["name"]), "arguments": object{}})
		err = errors.Join(err, getting)
	}
	if len(names) != 2 || len(resources) != 2 || len(prompts) != 1 {
		err = errors.Join(err, fmt.Errorf("listed are %d tools, %d resources and %d prompts, want 2, 2 and 1",
			len(names), len(resources), len(prompts)))
	}
	return err
}

// callsFromContext makes the calls that the suite prescribes, with the bytes of
// their arguments.
func callsFromContext(ctx context.Context, c *client) error {
	var given struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given); err != nil || len(given.ToolCalls) == 0 {
		return fmt.Errorf("the suite prescribes %d calls (%w)", len(given.ToolCalls), err)
	}
	err := c.has(ctx, "test_custom_headers", "test_custom_headers_null")
	for _, call := range given.ToolCalls {
		err = errors.Join(err, c.expect(ctx, call.Name, call.Arguments, "Custom headers test completed"))
	}
	return err
}

// callsWhatIsLeft uses the only tool with valid header annotations, and tries one that
// may not be used.
func callsWhatIsLeft(ctx context.Context, c *client) error {
	err := errors.Join(
		c.has(ctx, "valid_tool"),
		c.expect(ctx, "valid_tool", object{"region": "us-west1"}, "Tool call received"),
	)
	const dropped = "invalid_space_in_name"
	_, calling := c.text(ctx, dropped, object{"value": "x"})
	if f, ok := errors.AsType[*fault](calling); !ok || f.Code != -32602 {
		err = errors.Join(err, fmt.Errorf("calling %s: %w, want JSON-RPC error -32602", dropped, calling))
	}
	return err
}

// keepsReference expects the reference as the server wrote it; the suite checks that
// nobody follows it.
func keepsReference(ctx context.Context, c *client) error {
	schema, err := c.schema(ctx, "lookup_user")
	if err != nil {
		return err
	}
	var s struct {
		Properties struct {
			Profile struct {
				Ref string `json:"$ref"`
			} `json:"profile"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil || !strings.HasPrefix(s.Properties.Profile.Ref, "http://") {
		return fmt.Errorf("the schema of lookup_user lacks its reference: %s (%w)", schema, err)
	}
	return nil
}

// returnsSchema shows the server the schema that arrived here.
func returnsSchema(ctx context.Context, c *client) error {
	schema, err := c.schema(ctx, "json_schema_2020_12_tool")
	if err != nil {
		return err
	}
	return c.expect(ctx, "json_schema_echo", object{"schema": schema}, "echoed")
}
