// Package openai speaks to models in the two wire formats of OpenAI: chat completions,
// which most other endpoints speak as well, and responses.
//
// The formats are held against OpenAI's own library in the tests of package conformance.
// ADR 0047 says why the library is not in the program.
package openai

import (
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/native/agents/model"
)

const maxName = 64 // bytes of the name of a tool

// header returns the headers of a request that are OpenAI's.
func header(e *model.Endpoint, id string) http.Header {
	h := http.Header{}
	if e.Key != "" {
		h.Set("Authorization", "Bearer "+e.Key)
	}
	if id != "" {
		h.Set("Idempotency-Key", id)
		h.Set("X-Client-Request-Id", id)
	}
	return h
}

func address(e *model.Endpoint, path string) string {
	return strings.TrimRight(e.URL, "/") + path
}
