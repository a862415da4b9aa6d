//go:build e2e && unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/e2e/fixture"
)

// way is how a client reaches the server that asks it.
type way string

const (
	// wayDirect is without toolgate, which only works within one era.
	wayDirect way = "direct"
	// wayAlone is through toolgate as a principal of one's own, with one call at a
	// time to each server.
	wayAlone way = "alone"
	// wayCrowded is through toolgate as one principal that is all clients, with
	// several calls at once: what a server asks could be about any of them.
	wayCrowded way = "crowded"
)

// askedIn are the methods in which a server may ask in both eras, and in which
// every library lets it.
var askedIn = []string{"tools/call", "prompts/get"}

// atOnce is how many calls of one client are in flight.
const atOnce = 4

// cell is one question of one server in one method, put to one client.
type cell struct {
	way      way
	server   side
	as       string // the namespace of the server
	question fixture.Question
	method   string
	call     call
}

func (c *cell) String() string {
	return fmt.Sprintf("%s: %v asks %s in %s", c.way, c.server, c.question.Name, c.method)
}

// cellsOf are all questions of a server, reached in one way.
func cellsOf(w way, server side) []*cell {
	as := server.namespace()
	var cells []*cell
	for _, q := range fixture.Questions {
		for _, method := range askedIn {
			canary := newLabel("canary")
			c := &cell{w, server, as, q, method, call{ID: canary, Method: method, Name: q.Name, Canary: canary}}
			if w != wayDirect {
				c.call.Name = as + "__" + q.Name
			}
			cells = append(cells, c)
		}
	}
	return cells
}

// suits tells whether a cell is put to a client. In a crowd there are fewer: all
// kinds of questions in as few calls as possible, and nothing that the client
// would leave unanswered, since that keeps what others are asked from them.
func (c *cell) suits(client side) bool {
	return c.way != wayCrowded ||
		(c.question.Name == "two" || c.question.Name == "roots") && c.limit(client) == nil
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
		if step.Kind == fixture.Elicitation && c.way != wayDirect { // a person is told which server asks
			words = "[" + c.as + "] " + words
		}
		asked = append(asked, words)
		switch {
		case step.Kind == fixture.Roots:
			heard = append(heard, "file:///home/"+secret)
		case step.Kind == fixture.Sampling:
			heard = append(heard, secret+"|"+words)
		case c.question.Name == "declined":
			heard = append(heard, "decline")
		default:
			heard = append(heard, "accept "+secret+"|"+words)
		}
	}
	return strings.Join(heard, " then "), asked
}

// inLanes puts calls of servers into lanes: one for each server, or for each
// call.
func inLanes(cells [][]*cell, each bool) [][]call {
	var lanes [][]call
	for _, of := range cells {
		var lane []call
		for _, c := range of {
			lane = append(lane, c.call)
			if each {
				lanes, lane = append(lanes, lane), nil
			}
		}
		if lane != nil {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// TestQuestions has every server ask every client everything in every method, in
// every way in which they can meet. The answers must be those of the client whose
// call it is, and each client must be asked what is its own, once.
func TestQuestions(t *testing.T) {
	rig := &questionRig{clients: clientSides(), servers: serverSides(), keys: map[side]string{}, seen: map[side][]outcome{}}
	rig.start(t)
	t.Run("clients", func(t *testing.T) {
		for i := range clients {
			for _, era := range eras {
				if me := (side{clients[i].name, era}); slices.Contains(rig.clients, me) {
					t.Run(me.String(), func(t *testing.T) {
						t.Parallel()
						rig.converse(t, &clients[i], me)
					})
				}
			}
		}
	})
	rig.report(t)
}

// questionRig is one toolgate in front of all servers.
type questionRig struct {
	clients, servers []side
	urls             map[string]string // of the servers, by name
	through          string            // the URL of toolgate
	keys             map[side]string   // of the clients; the zero side is the crowd

	mu   sync.Mutex
	seen map[side][]outcome
}

func (r *questionRig) start(t *testing.T) {
	t.Helper()
	r.urls = startAskers(t)
	servers, settings := object{}, object{}
	var listed []string
	for _, server := range r.servers {
		name := server.namespace()
		servers[name] = object{"type": "http", "url": r.urls[server.name]}
		settings[name] = object{
			"protocol":        server.era,
			"client_requests": object{"sampling": "allow", "elicitation": "allow", "roots": "allow"},
		}
		for _, q := range fixture.Questions {
			listed = append(listed, name+"__"+q.Name)
		}
	}
	var keys []object
	for i, client := range append([]side{{}}, r.clients...) {
		r.keys[client] = fmt.Sprintf("tg-e2e-questions-%02d-0123456789abcdef0123456789abcdef", i)
		keys = append(keys, apiKey(fmt.Sprintf("client%d", i), r.keys[client], fmt.Sprintf("subject%d", i), "questions"))
	}
	g := newSetup(t, servers, object{
		"servers": settings, "auth": object{"keys": keys}, "gate": object{"open": true},
		"limits": object{"parked_per_principal": 256},
	}).up(t)
	r.through = g.mcp
	for _, key := range r.keys {
		g.waitTools(t, key, listed...)
	}
}

// converse makes all calls of one client.
func (r *questionRig) converse(t *testing.T, c *mcpClient, me side) {
	if p := c.program(); p.err != nil {
		need(t, p)
	}
	to := target{Transport: "http", Era: me.era, Secret: newLabel("secret"), AtOnce: atOnce}
	var all []*cell
	ways := map[way][][]*cell{}
	for _, server := range r.servers {
		for _, w := range []way{wayDirect, wayAlone, wayCrowded} {
			if w == wayDirect && server.era != me.era {
				continue
			}
			cells := slices.DeleteFunc(cellsOf(w, server), func(c *cell) bool { return !c.suits(me) })
			ways[w], all = append(ways[w], cells), append(all, cells...)
			if w == wayDirect {
				to.Links = append(to.Links, link{URL: r.urls[server.name], Lanes: inLanes([][]*cell{cells}, true)})
			}
		}
	}
	to.Links = append(to.Links,
		link{URL: r.through, Key: r.keys[me], Lanes: inLanes(ways[wayAlone], false)},
		link{URL: r.through, Key: r.keys[side{}], Lanes: inLanes(ways[wayCrowded], true)})

	got := c.run(t.Context(), to)
	if got.Error != "" {
		t.Fatalf("the client did not come to its end: %s", got.Error)
	}
	if legacy := got.Protocol < "2026-07-28"; got.Protocol == "" || legacy != (me.era == "legacy") {
		t.Errorf("negotiated %q in the %s era", got.Protocol, me.era)
	}
	var outcomes []outcome
	must, may := map[string]int{}, map[string]int{}
	for _, cell := range all {
		wrong, complete := cell.judge(me, to.Secret, got.Answers[cell.call.ID])
		if wrong != "" {
			t.Errorf("%v: %s", cell, wrong)
		}
		outcomes = append(outcomes, outcome{cell, complete})
		_, asked := cell.want(to.Secret)
		for _, words := range asked {
			may[words]++
			if complete {
				must[words]++
			}
		}
	}
	if me.name == "go-sdk" {
		must["roots"] = 0 // a list of the client, which answers without being asked
	}
	for _, wrong := range wronglyAsked(must, may, got.Asked) {
		t.Error(wrong)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[me] = outcomes
}

// wronglyAsked returns what is wrong with what a client was asked: less than it
// must, or more than it may be.
func wronglyAsked(must, may map[string]int, asked []string) []string {
	times := map[string]int{}
	for _, words := range asked {
		times[words]++
	}
	var wrong []string
	for words, n := range times {
		if n > may[words] {
			wrong = append(wrong, fmt.Sprintf("asked %d times, not %d: %s", n, may[words], words))
		}
	}
	for words, n := range must {
		if times[words] < n {
			wrong = append(wrong, fmt.Sprintf("asked %d times, not %d: %s", times[words], n, words))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// outcome is what became of one cell.
type outcome struct {
	cell     *cell
	answered bool
}

// report prints one table for each way, with how many cells of how many are
// answered, and why others are not. It is kept in results/questions.txt of the
// cache, too.
func (r *questionRig) report(t *testing.T) {
	t.Helper()
	var b strings.Builder
	for _, w := range []way{wayDirect, wayAlone, wayCrowded} {
		fmt.Fprintf(&b, "\nQuestions answered, %s\n%-24s", w, "client \\ server")
		for _, server := range r.servers {
			fmt.Fprintf(&b, " %-14s", server.namespace())
		}
		for _, client := range r.clients {
			fmt.Fprintf(&b, "\n%-24s", client)
			for _, server := range r.servers {
				fmt.Fprintf(&b, " %-14s", r.mark(w, client, server))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\nNot there, and never answered:\n")
	for _, n := range notThere {
		fmt.Fprintf(&b, "  %s %s %s: %s\n", n.role, n.name, n.era, n.because)
	}
	for _, l := range questionLimits {
		fmt.Fprintf(&b, "  %v asked for %s by %v: %s\n", l.client, l.question, l.server, l.because)
	}
	t.Log(b.String())
	if err := os.WriteFile(filepath.Join(lab.cache, "results", "questions.txt"), []byte(b.String()), 0o644); err != nil {
		t.Errorf("keeping the table: %v", err)
	}
}

// mark is what the table says of one client and one server.
func (r *questionRig) mark(w way, client, server side) string {
	answered, of := 0, 0
	for _, o := range r.seen[client] {
		if o.cell.way != w || o.cell.server != server {
			continue
		}
		of++
		if o.answered {
			answered++
		}
	}
	if of == 0 {
		return "-" // of two eras, which do not meet without toolgate
	}
	return fmt.Sprintf("%d/%d", answered, of)
}
