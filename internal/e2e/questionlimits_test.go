//go:build e2e

package e2e

import (
	"strings"
)

// questionLimit is a cell that fails, and has to: it must fail in this way, and
// one that is answered fails the run. An empty member stands for any.
type questionLimit struct {
	client, server side // of which an era may be empty too
	question       string
	way            way
	detail         string // what the error of the call holds
	because        string
}

// questionLimits holds every cell that is not answered. What stands here without
// a way fails without toolgate in between, too.
var questionLimits = []questionLimit{}

func (s side) includes(other side) bool {
	return (s.name == "" || s.name == other.name) && (s.era == "" || s.era == other.era)
}

func (l *questionLimit) applies(client side, c *cell) bool {
	return l.client.includes(client) && l.server.includes(c.server) &&
		(l.question == "" || l.question == c.question.Name) &&
		(l.way == "" || l.way == c.way)
}

// asksBeside tells whether a legacy server asks beside the stream of the call,
// on the standalone stream of the session: then a question is attributed to the
// only call in flight, and refused while there are several (docs/adr/0012).
func (c *cell) asksBeside() bool {
	if c.server.era != "legacy" {
		return false
	}
	switch c.server.name {
	case "typescript-sdk-1", "typescript-sdk-2":
		// What the documentation shows names no request to ask along with, and the
		// tools here do that; the prompts name theirs.
		return c.method == "tools/call"
	case "python-sdk", "fastmcp":
		return c.question.Name == "roots" // list_roots takes no request
	case "mcp-go":
		return c.question.Name != "form" && c.question.Name != "declined"
	}
	return false
}

// unattributed is how toolgate refuses a question that may be anybody's.
const unattributed = "cannot be attributed to one client's request"

// judge returns what is wrong with the answer to a cell, and whether the client
// was asked all that belongs to it.
func (c *cell) judge(client side, secret string, got returned) (wrong string, complete bool) {
	want, _ := c.want(secret)
	answered := got.Error == "" && got.Text == want
	var known *questionLimit
	for i := range questionLimits {
		if questionLimits[i].applies(client, c) {
			known = &questionLimits[i]
		}
	}
	switch {
	case known != nil && answered:
		return "is answered, so its entry in questionLimits is stale", true
	case known != nil && !strings.Contains(got.Error, known.detail):
		return "fails in another way than its entry in questionLimits says: " + got.Error, false
	case known != nil, answered:
		return "", answered
	case c.way == wayCrowded && c.asksBeside() && strings.Contains(got.Error, unattributed):
		return "", false
	case got.Error != "":
		return got.Error, false
	}
	return "returned " + got.Text + ", want " + want, false
}
