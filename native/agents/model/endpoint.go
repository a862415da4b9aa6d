package model

import (
	"encoding/json"
	"net/http"
)

// Endpoint is where a model is reached, and how. It is not changed once it is in use.
type Endpoint struct {
	// URL is what comes before "/chat/completions", "/responses" or "/v1/messages", such as
	// https://api.openai.com/v1 and https://api.anthropic.com. The "/v1" of the latter may
	// be there.
	URL string
	Key string // empty for none
	// HTTP makes the requests and bounds where they lead. A redirect is an answer like any
	// other. A limit on bodies is to be no stricter than a turn needs. It is no client, because
	// that would hold a copy of each header, and more of the stack, while a model thinks.
	HTTP http.RoundTripper
	// Parameters are members of each request besides those that a client writes, such as
	// temperature, reasoning_effort or thinking. They come from the operator.
	Parameters map[string]json.RawMessage
}
