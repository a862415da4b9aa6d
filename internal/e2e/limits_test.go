//go:build e2e && unix

package e2e

import (
	"fmt"
	"strings"
)

// limit is one thing that a client cannot do, whatever server it talks to. The
// driver must fail in exactly this way: a step that works, or fails otherwise,
// fails the run.
type limit struct {
	client    string
	transport string // "" for all
	era       string // "" for both
	step      string
	detail    string // what the driver's detail holds
	because   string // for the documentation

	// direct is set for what only happens without toolgate in between, which
	// does better than the server of the baseline.
	direct bool
}

// limits holds every exception that the script makes. Each was seen against the
// fixture without toolgate in between.
var limits = []limit{
	{
		client: "typescript-sdk-1", step: "call_int64",
		detail:  "argument and text exact, structured content reads 9007199254740992",
		because: "JavaScript reads numbers as doubles; the text of the result is exact",
	},
	{
		client: "typescript-sdk-2", step: "call_int64",
		detail:  "argument and text exact, structured content reads 9007199254740992",
		because: "JavaScript reads numbers as doubles; the text of the result is exact",
	},
	{
		client: "go-sdk", step: "call_int64",
		detail:  `argument and text exact, structured content reads {"n":9007199254740992`,
		because: "the library decodes structured content into doubles; the text of the result is exact",
	},
	{
		client: "inspector", step: "call_int64",
		detail:  "argument arrived in ",
		because: "arguments are read as JavaScript numbers before they are sent",
	},
	{
		client: "inspector", step: "progress",
		detail:  "no command for progress",
		because: "the command line does not show progress",
	},
	{
		client: "inspector", step: "list_changed",
		detail:  "no command for list_changed",
		because: "the command line ends after one command",
	},
	{
		client: "inspector", transport: "stdio", step: "cancel",
		detail:  "every command is a connection of its own",
		because: "the server process ends with the command",
	},
	{
		client: "inspector", transport: "http", era: "legacy", step: "cancel",
		detail:  "interrupting the command left the call running",
		because: "an interrupted command sends no cancellation, and a closed connection is none",
	},
	{
		client: "inspector", transport: "sse", step: "cancel", direct: true,
		detail:  "interrupting the command left the call running",
		because: "an interrupted command sends no cancellation; toolgate takes the end of the connection for one",
	},
	{
		client: "mcp-go", transport: "http", era: "legacy", step: "cancel",
		detail:  "the server counts {Cancelled:0 Running:1}",
		because: "over HTTP the library sends no cancellation, and a closed connection is none",
	},
	{
		client: "mcp-go", transport: "sse", step: "cancel",
		detail:  "the server counts {Cancelled:0 Running:1}",
		because: "over HTTP the library sends no cancellation, and a closed connection is none",
	},
	{
		client: "fastmcp", era: "modern", step: "list_changed",
		detail:  "the list change: nothing within 5000 ms",
		because: "the client never opens subscriptions/listen",
	},
}

// applies reports whether l is about this run, which is through toolgate or not.
func (l *limit) applies(client string, t target, through bool) bool {
	return l.client == client && !(l.direct && through) &&
		(l.transport == "" || l.transport == t.Transport) &&
		(l.era == "" || l.era == t.Era)
}

// judge returns what is wrong with a report: a step that fails without being a
// limit of its client, and a limit that is none (any more).
func judge(client string, t target, through bool, r report) []string {
	if r.Error != "" {
		return []string{"the script did not run to its end: " + r.Error}
	}
	var wrong []string
	for _, step := range steps {
		got, ran := r.Checks[step]
		if !ran {
			wrong = append(wrong, step+": not run")
			continue
		}
		var known *limit
		for i := range limits {
			if limits[i].step == step && limits[i].applies(client, t, through) {
				known = &limits[i]
			}
		}
		switch {
		case known == nil && !got.OK:
			wrong = append(wrong, fmt.Sprintf("%s: %s", step, got.Detail))
		case known != nil && got.OK:
			wrong = append(wrong, fmt.Sprintf("%s: works (%s), so its entry in limits is stale", step, got.Detail))
		case known != nil && !strings.Contains(got.Detail, known.detail):
			wrong = append(wrong, fmt.Sprintf("%s: fails in another way than its entry in limits says: %s", step, got.Detail))
		}
	}
	if legacy := r.Protocol < "2026-07-28"; r.Protocol == "" || legacy != (t.Era == "legacy") {
		wrong = append(wrong, fmt.Sprintf("protocol: negotiated %q in the %s era", r.Protocol, t.Era))
	}
	return wrong
}
