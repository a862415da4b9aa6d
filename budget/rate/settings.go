package rate

import "strings"

// Settings are a limit of calls in a time as an operator writes it.
type Settings struct {
	// Name of the rate limit. A limit that changes under the same name keeps its count. Default: made of per, match and
	// window.
	Name string `config:"name" format:"id"`
	// Whose calls are counted separately: principal, server, tenant, tool or persona, or a combination, as in
	// [principal, tool]. Required.
	Per []Dimension `config:"per" required:"true" list:"one" enum:"principal|server|tenant|tool|persona"`
	// Glob of the exposed names that count. Default: all.
	Match string `config:"match"`

	Rate
}

// Dimensions are the dimensions in one word.
func (s *Settings) Dimensions() string {
	words := make([]string, len(s.Per))
	for i, per := range s.Per {
		words[i] = string(per)
	}
	return strings.Join(words, "+")
}
