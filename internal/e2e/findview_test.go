//go:build e2e && unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/proxy/findview"
)

// findStep is one call through the find view and what has to come back.
type findStep struct {
	call
	want    []string // parts of the text
	refused []string // parts of the error; nil where the call succeeds
}

// findList is what the find view lists, whatever there is to call.
var findList = strings.Join([]string{
	findview.FindTools, findview.DescribeTools, findview.CallRead, findview.CallWrite, findview.CallDestructive, "fix__echo",
}, " ")

// calling is a call of a tool by one of the tools of the view.
func calling(via, tool string, arguments object) call {
	return call{Method: "tools/call", Name: via, Args: object{"name": tool, "arguments": arguments}}
}

// findSteps are the steps of one client over one transport in one era. What the
// client cannot do, whatever server it talks to, is left out.
func findSteps(client string, to target) []*findStep {
	slow, label := "fix__slow", object{"label": to.Label + "_c"}
	progress := calling(findview.CallWrite, slow, object{"label": to.Label, "ms": 250})
	progress.Progress = true
	cancelled := calling(findview.CallWrite, slow, object{"label": to.Label + "_c", "ms": 5000})
	cancelled.CancelAfter = 250
	counted := calling(findview.CallRead, "fix__cancelled_count", label)
	counted.Until = `"cancelled":1`
	change := object{"name": "added_" + to.Label}
	asked := object{"canary": to.Label}

	steps := []*findStep{
		{call: call{Method: "tools/list"}, want: []string{findList}},
		{
			call: call{Method: "tools/call", Name: findview.FindTools, Args: object{"query": "count the cancelled calls"}},
			want: []string{`"name":"fix__cancelled_count"`, `"call":"` + findview.CallRead + `"`},
		},
		{
			call: call{Method: "tools/call", Name: findview.DescribeTools, Args: object{"names": []string{slow}}},
			want: []string{`"inputSchema":{`, `"call":"` + findview.CallWrite + `"`},
		},
		{call: call{Method: "tools/call", Name: "fix__echo", Args: object{"n": 1}}, want: []string{`"n":1`}},
		{call: calling(findview.CallRead, "fix__cancelled_count", label), want: []string{`"running":0`}},
		{call: progress, want: []string{"done"}},
		{call: calling(findview.CallRead, "fix__change", change), refused: []string{findview.CallDestructive}},
		{call: calling(findview.CallRead, "fix__cancelled_count", object{}), refused: []string{`"required":["label"]`}},
		{call: calling(findview.CallRead, "fix__canceled_count", label), refused: []string{"fix__cancelled_count"}},
		// A task that the client does not see.
		{call: calling(findview.CallWrite, "work__failing_job", object{}), refused: []string{"the job failed"}},
	}
	if !cannotBeAsked(client, to) {
		steps = append(steps,
			&findStep{call: calling(findview.CallDestructive, "fix__change", change), want: []string{"added_" + to.Label}}, // after an approval
			&findStep{call: calling(findview.CallWrite, "ask__form", asked), want: []string{"accept ", "|[ask] " + to.Label + " form"}})
	}
	if client == "typescript-sdk-1" {
		task := calling(findview.CallWrite, "work__slow_compute", object{"seconds": 0.05, "label": to.Label})
		task.Task = true
		steps = append(steps, &findStep{call: task, want: []string{"computed"}})
	}
	if !cannotCancel(client, to) {
		steps = append(steps, &findStep{call: cancelled, refused: []string{""}}, &findStep{call: counted, want: []string{`"cancelled":1`}})
	}
	// The list is the same after a tool was added.
	steps = append(steps, &findStep{call: call{Method: "tools/list"}, want: []string{findList}})
	for i, s := range steps {
		s.ID = fmt.Sprintf("%s %s %s %d %s", to.Era, to.Transport, to.Label, i, s.Name)
	}
	return steps
}

// cannotCancel says that a client cannot cancel a call, whatever server it talks to.
func cannotCancel(client string, to target) bool {
	return slices.ContainsFunc(limits, func(l limit) bool { return l.step == "cancel" && l.applies(client, to, true) })
}

// cannotBeAsked says that a client has no way to answer a question: mcp-go reads no
// requests from the stream of HTTP+SSE.
func cannotBeAsked(client string, to target) bool { return client == "mcp-go" && to.Transport == "sse" }

// judge returns what is wrong with an answer.
func (s *findStep) judge(got returned) error {
	text, parts := got.Text, s.want
	if s.refused != nil {
		text, parts = got.Error, s.refused
	}
	if (got.Error != "") != (s.refused != nil) {
		return fmt.Errorf("text %q, error %q", got.Text, got.Error)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("no %s in %s", part, text)
		}
	}
	if s.Progress && got.Progress < 2 {
		return fmt.Errorf("progress came %d times", got.Progress)
	}
	return nil
}

// findGateway is a gateway with tools of each kind, of which those that may destroy
// need an approval.
func findGateway(t *testing.T) *gateway {
	t.Helper()
	annotated := func(hints object, names ...string) object {
		tools := object{}
		for _, name := range names {
			tools[name] = object{"annotations": hints}
		}
		return tools
	}
	reads, writes := object{"readOnlyHint": true}, object{"readOnlyHint": false, "destructiveHint": false}
	tools := annotated(reads, "echo", "cancelled_count")
	tools["slow"] = object{"annotations": writes}
	tools["change"] = object{"annotations": object{"readOnlyHint": false, "destructiveHint": true}}
	return startGateway(t, object{
		"fix":  fixtureServer(t, "http", "modern"),
		"ask":  fixtureServer(t, "http", "modern", "-ask"),
		"work": tasksEntry(t, "http", "legacy"),
	}, object{
		"find":       object{"pins": []string{"fix__echo"}},
		"approvals":  object{"wait": "20s"},
		"governance": object{"tools": object{"fix__change": object{"requires_approval": true}}},
		"servers": object{
			"fix":  object{"tools": tools},
			"ask":  object{"tools": annotated(writes, "form")},
			"work": object{"tools": annotated(writes, "failing_job", "slow_compute")},
		},
	}, append(fixtureTools("fix"), "ask__form", "work__failing_job")...)
}

// TestClientsOfTheFindView has every client use the find view of one gateway over each of
// its transports in both eras. Each finds, describes, calls by each of the three tools,
// is refused, is asked by the gateway and by a server, sees progress, and cancels.
func TestClientsOfTheFindView(t *testing.T) {
	g := findGateway(t)
	t.Run("clients", func(t *testing.T) {
		for _, c := range clients {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				if p := c.program(); p.err != nil {
					need(t, p)
				}
				if c.name == "inspector" {
					inspectFindView(t, g)
					return
				}
				findWith(t, g, c)
			})
		}
	})
}

// findURL returns where the find view is served over a transport.
func (g *gateway) findURL(transport string) string {
	if transport == "sse" {
		return g.sse + "/find"
	}
	return g.mcp + "/find"
}

// findWith runs the steps of a client, which answers what it is asked.
func findWith(t *testing.T, g *gateway, c mcpClient) {
	to := g.stdio(t)
	to.Args = append(to.Args, "--view", "find")
	to.AtOnce, to.Secret = 1, newLabel("secret")
	var all []*findStep
	questions := 0 // of the gateway, and as many of a server
	for _, era := range eras {
		for _, transport := range c.transports(era) {
			at := target{Transport: transport, Era: era, Label: newLabel(c.name)}
			if !cannotBeAsked(c.name, at) {
				questions++
			}
			steps := findSteps(c.name, at)
			var lane []call
			for _, s := range steps {
				lane = append(lane, s.call)
			}
			all = append(all, steps...)
			to.Links = append(to.Links, link{URL: g.findURL(transport), Transport: transport, Era: era, Lanes: [][]call{lane}})
		}
	}
	r := c.run(t.Context(), to)
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	results.add(t.Name(), r)
	for _, s := range all {
		if err := s.judge(r.Answers[s.ID]); err != nil {
			t.Errorf("%s: %v", s.ID, err)
		}
	}
	for i, l := range to.Links {
		if modern := r.Protocols[i] >= "2026-07-28"; modern != (l.Era == "modern") {
			t.Errorf("%s is negotiated in the %s era over %s", r.Protocols[i], l.Era, l.Transport)
		}
	}
	approvals, forms := 0, 0
	for _, asked := range r.Asked {
		if strings.Contains(asked, "fix__change") {
			approvals++
		}
		if strings.HasPrefix(asked, "[ask] ") {
			forms++
		}
	}
	if approvals != questions || forms != questions {
		t.Errorf("it was asked for %d approvals, and %d times by a server, want %d of each: %q", approvals, forms, questions, r.Asked)
	}
}

// inspectFindView runs the steps that read with the Inspector's command line, which
// cannot be asked anything. Each is a process of its own, so those that are refused are
// run in one era.
func inspectFindView(t *testing.T, g *gateway) {
	for _, at := range []target{{Transport: "http", Era: "modern"}, {Transport: "sse", Era: "legacy"}} {
		at.URL, at.Label = g.findURL(at.Transport), newLabel("inspector")
		in, err := newInspector(t.TempDir(), at)
		if err != nil {
			t.Fatal(err)
		}
		s := &inspection{in: in, t: at}
		list := false
		for _, step := range findSteps("inspector", at) {
			switch {
			case step.Method == "tools/list" && list, step.Until != "", step.refused != nil && at.Era == "legacy",
				step.Method != "tools/list" && !slices.Contains([]string{findview.FindTools, findview.DescribeTools, findview.CallRead}, step.Name):
				continue
			case step.Method == "tools/list":
				list = true
			}
			if err := step.judge(s.returned(t.Context(), step.call)); err != nil {
				t.Errorf("%s: %v", step.ID, err)
			}
		}
	}
}
