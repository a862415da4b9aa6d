//go:build e2e && unix

package e2e

import (
	"fmt"
	"strings"
)

// notThere are the libraries that take no part on one side, with the reason.
// Every other client and server is run in both eras.
var notThere = []struct{ role, name, era, because string }{
	{"client", "inspector", "", "its command line ends after one command and answers nothing"},
	{"client", "typescript-sdk-1", "modern", "version 1 of the SDK ends with 2025-11-25"},
	{"server", "typescript-sdk-1", "modern", "version 1 of the SDK ends with 2025-11-25"},
}

// questionLimit is a cell that fails, and has to: it must fail in one of these
// ways, and one that is answered fails the run. An empty name or era stands for
// any.
type questionLimit struct {
	client, server side
	question       string
	details        []string // the error of the call holds one of them
	because        string
}

// noParams is what a client of go-sdk v1.8.0 makes of a question without params.
var noParams = []string{"unexpected end of JSON input"}

// questionLimits holds every cell that is not answered. Where both sides speak
// one era it is the same without toolgate in between, and it is run both ways.
var questionLimits = []questionLimit{
	roots("typescript-sdk-2"),
	roots("python-sdk"),
	roots("fastmcp"),
	roots("mcp-go"),
}

// roots is the limit of go-sdk with modern servers that ask for roots without
// params, which they may leave out (2026-07-28 schema, ListRootsRequest). What a
// legacy server asks has params by the time that it is there.
func roots(server string) questionLimit {
	return questionLimit{
		client: side{"go-sdk", "modern"}, server: side{server, "modern"}, question: "roots", details: noParams,
		because: "the library decodes the params of every input request, also where there are none",
	}
}

func (s side) includes(other side) bool {
	return (s.name == "" || s.name == other.name) && (s.era == "" || s.era == other.era)
}

func (l *questionLimit) applies(client side, c *cell) bool {
	return l.client.includes(client) && l.server.includes(c.server) && l.question == c.question.Name
}

// fits tells whether a call failed in the way that l says.
func (l *questionLimit) fits(got returned) bool {
	for _, detail := range l.details {
		if strings.Contains(got.Error, detail) {
			return true
		}
	}
	return false
}

// limit returns the entry that is about the cell and a client, or nil.
func (c *cell) limit(client side) *questionLimit {
	for i := range questionLimits {
		if l := &questionLimits[i]; l.applies(client, c) {
			return l
		}
	}
	return nil
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
		// What their documentation shows names no request to ask along with, and the
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

// refusedBeside tells whether a call failed because its server heard that refusal. A
// server that answers the call with the code of the refusal has toolgate answer
// HTTP 404, which mcp-go v1.2.1 takes for the end of its session.
func refusedBeside(client side, got returned) bool {
	return strings.Contains(got.Error, unattributed) ||
		client == side{"mcp-go", "modern"} && strings.Contains(got.Error, "session terminated (404)")
}

// judge returns what is wrong with the answer to a cell, and whether it is the
// one that is wanted.
func (c *cell) judge(client side, secret string, got returned) (wrong string, answered bool) {
	want, _ := c.want(secret)
	answered = got.Error == "" && got.Text == want
	known := c.limit(client)
	switch {
	case known != nil && answered:
		return "is answered, so its entry in questionLimits is stale", true
	case known != nil && !known.fits(got):
		return fmt.Sprintf("fails in another way than its entry in questionLimits says: %+v", got), false
	case known != nil:
		return "", false
	case answered, c.way == wayCrowded && c.asksBeside() && refusedBeside(client, got):
		return "", answered
	case got.Error != "":
		return got.Error, false
	}
	return fmt.Sprintf("returned %q, want %q", got.Text, want), false
}
