//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/e2e/fixture"
)

// asker is a server whose tools and prompts ask their caller, made with one of
// the libraries.
type asker struct {
	name    string // the name of the client of the same library
	brief   string // of its namespaces
	program func() installed
	eras    []string
	command func(t *testing.T) *exec.Cmd
}

var askers = []asker{
	{"typescript-sdk-1", "ts1", nodeNeeded, []string{"legacy"}, nodeAsker("server_old.mjs")},
	{"typescript-sdk-2", "ts2", nodeNeeded, eras, nodeAsker("server_new.mjs")},
	{"python-sdk", "python", pyNeeded, eras, pythonAsker("server_sdk.py")},
	{"fastmcp", "fastmcp", pyNeeded, eras, pythonAsker("server_fast.py")},
	{"go-sdk", "gosdk", none, eras, goAsker()},
	{"mcp-go", "mcpgo", none, eras, goAsker("-second")},
}

func nodeAsker(file string) func(*testing.T) *exec.Cmd {
	return func(*testing.T) *exec.Cmd {
		return exec.Command(lab.node.path, filepath.Join(lab.cache, "node", file))
	}
}

func pythonAsker(file string) func(*testing.T) *exec.Cmd {
	return func(*testing.T) *exec.Cmd {
		cmd := exec.Command(lab.python.path, filepath.Join(lab.root, "internal", "e2e", "python", file))
		cmd.Env = append(os.Environ(), "PYTHONPYCACHEPREFIX="+filepath.Join(lab.cache, "pycache"))
		return cmd
	}
}

func goAsker(args ...string) func(*testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		return exec.Command(built(t, lab.fixture), append([]string{"-ask", "-http", "127.0.0.1:0"}, args...)...)
	}
}

// namespace is where toolgate mounts the server, speaking to it in one era.
func (a *asker) namespace(era string) string { return a.brief + "-" + era }

// askedIn are the methods in which a server may ask in every revision, and a
// question is registered for.
var askedIn = []string{"tools/call", "prompts/get"}

// cell is one question of one server in one method.
type cell struct {
	server    *asker
	serverEra string
	question  fixture.Question
	method    string
	through   bool

	call call
}

func (c *cell) String() string {
	return fmt.Sprintf("%s/%s asks %s in %s", c.server.name, c.serverEra, c.question.Name, c.method)
}

// cellsOf are all questions of a server in one era, through toolgate or directly.
func cellsOf(a *asker, era string, through bool) []*cell {
	var cells []*cell
	for _, q := range fixture.Questions {
		for _, method := range askedIn {
			c := &cell{server: a, serverEra: era, question: q, method: method, through: through}
			canary := newLabel("canary")
			c.call = call{ID: canary, Method: method, Name: q.Name, Canary: canary}
			if through {
				c.call.Name = a.namespace(era) + "__" + q.Name
			}
			cells = append(cells, c)
		}
	}
	return cells
}

// want is what the call returns when the answers are those of the client with
// the given secret, and what that client is asked.
func (c *cell) want(secret string) (text string, asked []string) {
	var heard []string
	for _, step := range c.question.Steps {
		words := "roots"
		if step.Text != nil {
			words = step.Text(c.call.Canary, heard)
		}
		answer := secret + "|" + words
		switch step.Kind {
		case fixture.Elicitation:
			if c.through { // a person is told which server asks
				words = "[" + c.server.namespace(c.serverEra) + "] " + words
			}
			answer = "accept " + secret + "|" + words
			if c.question.Name == "declined" {
				answer = "decline"
			}
		case fixture.Roots:
			answer = "file:///home/" + secret
		}
		heard, asked = append(heard, answer), append(asked, words)
	}
	for i, h := range heard {
		if i > 0 {
			text += " then "
		}
		text += h
	}
	return text, asked
}

// atOnce is how many calls of one client are in flight: several, so that a
// question that reaches the wrong one of them is seen.
const atOnce = 4

// TestQuestions has every server ask every client everything, directly where
// both speak the same era, and all of them through toolgate.
func TestQuestions(t *testing.T) {
	urls := map[string]string{}
	for i := range askers {
		a := &askers[i]
		if p := a.program(); p.err != nil {
			need(t, p)
		}
		urls[a.name] = ""
	}
	for i := range askers {
		a := &askers[i]
		p := start(t, "asking server "+a.name, a.command(t))
		urls[a.name] = p.waitFor(t, urlLine, 20*time.Second)
	}
	servers, settings, listed := object{}, object{}, []string{}
	for i := range askers {
		for _, era := range askers[i].eras {
			name := askers[i].namespace(era)
			servers[name] = object{"type": "http", "url": urls[askers[i].name]}
			settings[name] = object{
				"protocol":        era,
				"client_requests": object{"sampling": "allow", "elicitation": "allow", "roots": "allow"},
			}
			for _, q := range fixture.Questions {
				listed = append(listed, name+"__"+q.Name)
			}
		}
	}
	g := startGateway(t, servers, object{"servers": settings, "limits": object{"parked_per_principal": 256}}, listed...)

	t.Run("clients", func(t *testing.T) {
		for i := range clients {
			c := &clients[i]
			if c.name == "inspector" {
				continue // a command that answers nothing
			}
			for _, era := range eras {
				if !slices.Contains(c.transports(era), "http") {
					continue
				}
				t.Run(c.name+"/"+era, func(t *testing.T) {
					t.Parallel()
					converse(t, c, era, urls, g.mcp)
				})
			}
		}
	})
}

// converse makes all calls of one client in one era.
func converse(t *testing.T, c *mcpClient, era string, urls map[string]string, through string) {
	secret := newLabel("secret")
	var cells []*cell
	var links []link
	for i := range askers {
		if slices.Contains(askers[i].eras, era) {
			direct := cellsOf(&askers[i], era, false)
			links = append(links, link{URL: urls[askers[i].name], Calls: callsOf(direct)})
			cells = append(cells, direct...)
		}
	}
	var all []*cell
	for i := range askers {
		for _, serverEra := range askers[i].eras {
			all = append(all, cellsOf(&askers[i], serverEra, true)...)
		}
	}
	links = append(links, link{URL: through, Calls: callsOf(all)})
	cells = append(cells, all...)

	r := c.run(t.Context(), target{Transport: "http", Era: era, Secret: secret, Links: links, AtOnce: atOnce})
	if r.Error != "" {
		t.Fatalf("the client did not come to its end: %s", r.Error)
	}
	if legacy := r.Protocol < "2026-07-28"; legacy != (era == "legacy") {
		t.Errorf("negotiated %q in the %s era", r.Protocol, era)
	}
	var wantAsked []string
	for _, cell := range cells {
		text, asked := cell.want(secret)
		got := r.Answers[cell.call.ID]
		if got.Error != "" || got.Text != text {
			t.Errorf("%v (through %t): %q %s, want %q", cell, cell.through, got.Text, got.Error, text)
		}
		wantAsked = append(wantAsked, asked...)
	}
	slices.Sort(wantAsked)
	slices.Sort(r.Asked)
	if diff := cmp.Diff(wantAsked, r.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func callsOf(cells []*cell) []call {
	var calls []call
	for _, c := range cells {
		calls = append(calls, c.call)
	}
	return calls
}
