package gate

import "strings"

// Names are the names under which rules are about a capability. Most have one.
// A tool or prompt whose server offers another that differs by case alone is
// exposed under another name than without that, so that clients which do not
// tell cases apart never mistake one for the other. A server decides what it
// offers: what it adds must neither lift a rule nor gain by one.
type Names struct {
	// Exposed is the name or URI that clients know.
	Exposed string
	// Unsuffixed is the name that clients would know if nothing else differed from
	// it by case alone; empty where that is Exposed.
	Unsuffixed string
}

// Restricted tells whether a rule that takes something away is about the
// capability: one for any of its names is.
func (n Names) Restricted(by Glob) bool {
	return by.Match(n.Exposed) || n.Unsuffixed != "" && by.Match(n.Unsuffixed)
}

// Granted tells whether a rule that gives something is about the capability: it
// has to cover the name that clients know. One that covers more than one name
// has to cover the plain one too, so that no server brings a tool into its
// reach by listing another.
func (n Names) Granted(by Glob) bool {
	if !by.Match(n.Exposed) {
		return false
	}
	return n.Unsuffixed == "" || !strings.ContainsAny(string(by), "*?") || by.Match(n.Unsuffixed)
}

// All returns the names, the exposed one first.
func (n Names) All() []string {
	if n.Unsuffixed == "" {
		return []string{n.Exposed}
	}
	return []string{n.Exposed, n.Unsuffixed}
}

// Stable is the name that does not depend on what else the server offers.
func (n Names) Stable() string {
	if n.Unsuffixed != "" {
		return n.Unsuffixed
	}
	return n.Exposed
}

// Names returns the names of the capability that is asked about.
func (r *Request) Names() Names { return Names{r.Exposed, r.Unsuffixed} }
