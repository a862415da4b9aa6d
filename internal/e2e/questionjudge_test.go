//go:build e2e && unix

package e2e

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/e2e/fixture"
)

func question(t *testing.T, name string) fixture.Question {
	t.Helper()
	i := slices.IndexFunc(fixture.Questions, func(q fixture.Question) bool { return q.Name == name })
	if i < 0 {
		t.Fatalf("there is no question %q", name)
	}
	return fixture.Questions[i]
}

// TestQuestionJudge holds judge to what it must not let pass.
func TestQuestionJudge(t *testing.T) {
	ts1, goSDK := side{"typescript-sdk-1", "legacy"}, side{"go-sdk", "modern"}
	mcpGo, python := side{"mcp-go", "modern"}, side{"python-sdk", "legacy"}
	const refusal = "elicitation/create " + unattributed + ", so it is not relayed"
	tests := []struct {
		name             string
		way              way
		client, server   side
		question, method string
		got              returned
		ok, answered     bool
	}{
		{"one's own answer", wayAlone, python, ts1, "form", "tools/call", returned{Text: "accept mine|[ns] c form"}, true, true},
		{"directly, without a name in front", wayDirect, python, ts1, "form", "tools/call", returned{Text: "accept mine|c form"}, true, true},
		{"somebody else's", wayAlone, python, ts1, "form", "tools/call", returned{Text: "accept other|[ns] c form"}, false, false},
		{"to another call", wayAlone, python, ts1, "form", "tools/call", returned{Text: "accept mine|[ns] d form"}, false, false},
		{"a server without a name", wayAlone, python, ts1, "form", "tools/call", returned{Text: "accept mine|c form"}, false, false},
		{"accepted though declined", wayAlone, python, ts1, "declined", "tools/call", returned{Text: "accept mine|[ns] c please decline"}, false, false},
		{"declined", wayAlone, python, ts1, "declined", "tools/call", returned{Text: "decline"}, true, true},
		{"two", wayAlone, python, ts1, "two", "tools/call", returned{Text: "accept mine|[ns] c first then mine|c second after accept mine|[ns] c first"}, true, true},
		{"two without the first", wayAlone, python, ts1, "two", "tools/call", returned{Text: "mine|c second after accept mine|[ns] c first"}, false, false},
		{"roots", wayAlone, python, ts1, "roots", "tools/call", returned{Text: "file:///home/mine"}, true, true},
		{"an error with the right text", wayAlone, python, ts1, "roots", "tools/call", returned{Text: "file:///home/mine", Error: "no"}, false, false},
		{"not called", wayAlone, python, ts1, "form", "tools/call", returned{}, false, false},
		{"refused alone", wayAlone, python, ts1, "form", "tools/call", returned{Error: refusal}, false, false},
		{"refused in a crowd", wayCrowded, python, ts1, "form", "tools/call", returned{Error: refusal}, true, false},
		{"refused on the stream of the call", wayCrowded, python, ts1, "form", "prompts/get", returned{Error: refusal}, false, false},
		{"somebody else's in a crowd", wayCrowded, python, ts1, "form", "tools/call", returned{Text: "accept other|[ns] c form"}, false, false},
		{"404 in a crowd", wayCrowded, mcpGo, python, "roots", "tools/call", returned{Error: "session terminated (404)"}, true, false},
		{"404 for another client", wayCrowded, python, python, "roots", "tools/call", returned{Error: "session terminated (404)"}, false, false},
		{"a limit", wayDirect, goSDK, mcpGo, "roots", "tools/call", returned{Error: "unexpected end of JSON input"}, true, false},
		{"a limit that is none", wayDirect, goSDK, mcpGo, "roots", "tools/call", returned{Text: "file:///home/mine"}, false, true},
		{"a limit of another kind", wayDirect, goSDK, mcpGo, "roots", "tools/call", returned{Error: "no"}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &cell{tt.way, tt.server, "ns", question(t, tt.question), tt.method, call{Canary: "c"}}
			wrong, answered := c.judge(tt.client, "mine", tt.got)
			if (wrong == "") != tt.ok || answered != tt.answered {
				t.Errorf("judge = %q, answered %t, want nothing wrong: %t, answered %t", wrong, answered, tt.ok, tt.answered)
			}
		})
	}
}

func TestWronglyAsked(t *testing.T) {
	must, may := map[string]int{"a": 1, "roots": 2}, map[string]int{"a": 1, "b": 1, "roots": 3}
	tests := []struct {
		name  string
		asked []string
		want  []string
	}{
		{"what must be", []string{"a", "roots", "roots"}, nil},
		{"what may be", []string{"b", "roots", "a", "roots", "roots"}, nil},
		{"too little", []string{"roots", "roots"}, []string{"asked 0 times, not 1: a"}},
		{"twice", []string{"a", "roots", "roots", "a"}, []string{"asked 2 times, not 1: a"}},
		{"somebody else's", []string{"a", "roots", "roots", "c"}, []string{"asked 1 times, not 0: c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, wronglyAsked(must, may, tt.asked)); diff != "" {
				t.Errorf("wronglyAsked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuestionLimits holds what is left out, and what fails, to clients, servers
// and questions that exist.
func TestQuestionLimits(t *testing.T) {
	for _, n := range notThere {
		known := slices.ContainsFunc(askers, func(a *asker) bool { return n.role == "server" && a.name == n.name }) ||
			slices.ContainsFunc(clients, func(c mcpClient) bool { return n.role == "client" && c.name == n.name })
		if !known || n.because == "" || n.era != "" && !slices.Contains(eras, n.era) {
			t.Errorf("left out is what does not exist, or without a reason: %+v", n)
		}
	}
	for _, l := range questionLimits {
		cells := 0
		for _, client := range clientSides() {
			for _, server := range serverSides() {
				for _, c := range cellsOf(wayAlone, server) {
					if l.applies(client, c) {
						cells++
					}
				}
			}
		}
		if cells == 0 || l.because == "" || len(l.details) == 0 {
			t.Errorf("a limit of no cell, or without a reason: %+v", l)
		}
	}
}
