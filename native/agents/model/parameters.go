package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Format is a wire format of an endpoint.
type Format string

// The formats.
const (
	Chat      Format = "chat"      // /chat/completions, as OpenAI has it
	Responses Format = "responses" // /responses, likewise
	Messages  Format = "messages"  // /v1/messages, as Anthropic has it
)

const (
	// MaxParameters is how many parameters an endpoint may have, and MaxParameterBytes how
	// long they may be together: each request has them.
	MaxParameters, MaxParameterBytes = 32, 16 << 10
)

// own are the members of a request that the client of a format writes, or that would change
// what these mean: an older name of a limit, tools that no gateway decides on, a
// conversation that the endpoint keeps.
var own = map[Format][]string{
	Chat: {
		"model", "messages", "tools", "tool_choice", "max_completion_tokens", "stream", "stream_options", "n",
		"max_tokens", "functions", "function_call",
	},
	Responses: {
		"model", "instructions", "input", "tools", "tool_choice", "max_output_tokens", "store", "include", "stream",
		"stream_options", "background", "previous_response_id", "conversation", "prompt",
	},
	Messages: {
		"model", "max_tokens", "system", "messages", "tools", "tool_choice", "stream", "mcp_servers", "container",
	},
}

// CheckParameters returns the name of the first parameter that no request of a format may
// have, and what is wrong with it. What all of them have wrong comes without a name.
func CheckParameters(f Format, parameters map[string]json.RawMessage) (name string, err error) {
	if len(parameters) > MaxParameters {
		return "", fmt.Errorf("a model has %d parameters, and at most %d are taken", len(parameters), MaxParameters)
	}
	bytes := 0
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		// Some endpoints read the names of members whatever their case is.
		at := slices.IndexFunc(own[f], func(s string) bool { return strings.EqualFold(s, name) })
		switch {
		case at >= 0:
			return name, fmt.Errorf("parameter %q of a model is not free: the gateway decides what it says", name)
		case !json.Valid(parameters[name]):
			return name, fmt.Errorf("parameter %q of a model is not JSON", name)
		}
		bytes += len(name) + len(parameters[name])
	}
	if bytes > MaxParameterBytes {
		return "", fmt.Errorf("the parameters of a model have %d bytes, and at most %d are taken", bytes, MaxParameterBytes)
	}
	return "", nil
}
