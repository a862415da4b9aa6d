package proxy

import (
	"net/http"
	"strings"
)

// Need is something without which the gateway decides nothing.
type Need struct {
	// Name is one word, which anybody may read.
	Name string
	// OK says that it is there.
	OK bool
}

// needs are all that the gateway needs to serve, in the order in which the first
// that is missing names the whole. Servers are not among them: a gateway without
// one of them serves the others.
func (hf *httpFront) needs() []Need {
	all := []Need{
		{"stopping", hf.g.life.Err() == nil},
		{"audit", hf.g.opts.Auditor.Healthy() == nil},
	}
	if c := hf.g.config.Load(); c.Needs != nil {
		all = append(all, c.Needs()...)
	}
	return all
}

// readyz tells whether the gateway serves: in one word, and where that is asked
// for in a line for everything that it needs. It tells everybody, so that it
// says nothing but the words. It never waits for a server.
func (hf *httpFront) readyz(w http.ResponseWriter, verbose bool) {
	all := hf.needs()
	status, word := http.StatusOK, "ok"
	var lines strings.Builder
	for i, n := range all {
		if !n.OK && status == http.StatusOK {
			status, word = http.StatusServiceUnavailable, n.Name
		}
		if i == 0 { // that it ends is no need, and said in the first line
			continue
		}
		state := "ok"
		if !n.OK {
			state = "not ready"
		}
		lines.WriteString("\n" + n.Name + " " + state)
	}
	if verbose {
		word += lines.String()
	}
	plain(w, status, word)
}
