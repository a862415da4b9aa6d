package rate

import "strings"

// Settings are a limit of calls in a time as an operator writes it: so many at once,
// and one more whenever window/limit has passed.
type Settings struct {
	// Name of the limit. One that is changed under its name goes on with what was
	// counted. Absent: made of per, match and window.
	Name string `config:"name" format:"id"`
	// Per is whose calls are counted apart: principal, server, tenant, tool or persona, or
	// several of them, as in [principal, tool]. Required.
	Per []Dimension `config:"per" required:"true" list:"one" enum:"principal|server|tenant|tool|persona"`
	// Match is a glob of exposed names that it counts. Absent: all.
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
