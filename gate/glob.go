package gate

import "strings"

// Glob is a pattern of exposed names and URIs in which * stands for any text,
// a slash included, and ? for any one byte. Everything else stands for itself,
// in its own case. The empty Glob matches nothing.
type Glob string

// Match tells whether the pattern covers a name. It takes time in proportion to
// the product of both lengths at most.
func (g Glob) Match(name string) bool {
	if g == "" {
		return false
	}
	p, n := 0, 0
	star, resume := -1, 0 // the last *, and where its text ends so far
	for n < len(name) {
		switch {
		case p < len(g) && g[p] == '*':
			star, resume = p, n
			p++
		case p < len(g) && (g[p] == '?' || g[p] == name[n]):
			p++
			n++
		case star >= 0:
			resume++
			p, n = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(string(g[p:]), "*") == ""
}
