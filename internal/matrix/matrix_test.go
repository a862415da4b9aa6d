//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream"
)

const (
	// workers is how many cells run at once, each as a principal of its own.
	workers = 8
	// notYetTime bounds a cell of a feature that may hang.
	notYetTime = 3 * time.Second
	// patience is how many cells of a feature may hang with one server before
	// the others are taken for the same.
	patience = 3
)

// place is where a cell is in its row.
type place struct{ down, up kind }

// matrix collects the results of all cells. It is safe for concurrent use.
type matrix struct {
	rig      *rig
	leaveOut []string // rows that are not run
	sparse   bool     // one cell of three is run, so that every client and every server has some

	mu      sync.Mutex
	results map[*feature]map[place]error
	hung    map[*feature]map[kind]int // by the server
}

// TestMatrix runs every feature between every client and every server.
func TestMatrix(t *testing.T) {
	m := &matrix{rig: startRig(t, setup{workers: workers}), results: make(map[*feature]map[place]error), hung: make(map[*feature]map[kind]int)}
	m.all(t)
	if rowOf(listChanges).selected() {
		m.together(t.Context())
	}
	m.judge(t)
	if !t.Failed() && *only == "" {
		m.document(t)
	}
}

// all runs every row but the ones for all clients together.
func (m *matrix) all(t *testing.T) {
	for _, f := range features {
		m.results[f], m.hung[f] = make(map[place]error), make(map[kind]int)
	}
	queue := make(chan kind, len(kinds()))
	for _, down := range kinds() {
		queue <- down
	}
	close(queue)
	var running sync.WaitGroup
	for i := range m.rig.workers {
		running.Go(func() {
			for down := range queue {
				m.row(t.Context(), down, m.rig.workers[i])
			}
		})
	}
	running.Wait()
}

// TestMatrixOfTheFindView runs what a client does with a tool for every client and every
// server through the find view. The rest is what it is in the full view. Without -whole it
// runs a third of the cells.
func TestMatrixOfTheFindView(t *testing.T) {
	m := &matrix{
		rig:     startRig(t, setup{workers: workers, view: proxy.FindView}),
		results: make(map[*feature]map[place]error), hung: make(map[*feature]map[kind]int),
		leaveOut: []string{"lists", listChanges, channelChanges, "arguments in headers", "MCP Apps"},
		sparse:   !*whole,
	}
	m.all(t)
	m.judge(t)
}

// row runs all cells of one client, one after the other.
func (m *matrix) row(ctx context.Context, down kind, w worker) {
	for _, bare := range []bool{false, true} {
		capabilities := declared(down)
		if bare {
			capabilities = "{}"
		}
		c, err := m.rig.connect(ctx, down, w, "client-"+down.slug(), capabilities)
		for _, up := range kinds() {
			for _, f := range features {
				if f.bare != bare || f.run == nil || !m.selected(f) || !m.runs(down, up) || f.impossible(down, up) != nil {
					continue
				}
				if err != nil {
					m.record(f, place{down, up}, fmt.Errorf("connect: %w", err))
					continue
				}
				m.run(ctx, f, c, place{down, up})
			}
		}
		if err == nil {
			c.close()
		}
	}
}

// runs tells whether the cells between a client and a server are run in this matrix.
func (m *matrix) runs(down, up kind) bool {
	all := kinds()
	return !m.sparse || (slices.Index(all, down)+slices.Index(all, up))%3 == 0
}

// selected tells whether a row is run in this matrix.
func (m *matrix) selected(f *feature) bool {
	return f.selected() && !slices.Contains(m.leaveOut, f.name)
}

// selected tells whether the row is run.
func (f *feature) selected() bool {
	name := f.name
	if name == channelChanges {
		name = listChanges // the same run
	}
	return strings.Contains(name, *only)
}

// declared are the capabilities of a client that has all of its revision.
func declared(k kind) string {
	switch {
	case k.modern():
		return `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`
	case k.rev >= mcp.V20251125:
		return `{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`
	case k.rev >= mcp.V20250618:
		return `{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}`
	}
	return `{"roots":{"listChanged":true},"sampling":{}}`
}

// run runs one cell.
func (m *matrix) run(ctx context.Context, f *feature, c *client, at place) {
	if m.hangs(f, at.up) {
		m.record(f, at, errors.New("not run, because others with this server hang"))
		return
	}
	limit := *cellTime
	if slices.Contains(notYet, f.name) {
		limit = min(limit, notYetTime)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cell := m.open(f, c, at)
	err := f.run(ctx, cell)
	if ctx.Err() != nil {
		m.mu.Lock()
		m.hung[f][at.up]++
		m.mu.Unlock()
	}
	m.close(cell, at, err)
}

func (m *matrix) hangs(f *feature, up kind) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hung[f][up] >= patience
}

// open begins a cell.
func (m *matrix) open(f *feature, c *client, at place) *cell {
	isolation := upstream.IsolateAuto
	if f.isolation != nil {
		isolation = f.isolation(at.down, at.up)
	}
	cell := &cell{feature: f, down: at.down, to: m.rig.targets[at.up][isolation], client: c}
	m.rig.board.open(cell)
	c.mu.Lock()
	c.cell = cell
	c.mu.Unlock()
	return cell
}

// close ends a cell with its error and the rules that were broken in it.
func (m *matrix) close(c *cell, at place, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	joined := []error{err}
	for _, p := range c.problems {
		joined = append(joined, errors.New(p))
	}
	c.noted = len(c.problems)
	m.record(c.feature, at, errors.Join(joined...))
}

func (m *matrix) record(f *feature, at place, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results[f][at] = err
}

// judge reports the cells, and fails those that should work.
func (m *matrix) judge(t *testing.T) {
	for _, text := range m.late() {
		t.Errorf("outside of every cell: %s", text)
	}
	for _, f := range features {
		if m.selected(f) {
			t.Run(f.name, func(t *testing.T) { m.judgeRow(t, f) })
		}
	}
	for _, name := range notYet {
		if !slices.ContainsFunc(features, func(f *feature) bool { return f.name == name }) {
			t.Errorf("notYet has %q, which is not a feature", name)
		}
	}
	t.Logf("\n%s", m.table())
}

// late adds what was broken after the end of a cell to its result, and returns
// what was broken outside of every cell.
func (m *matrix) late() (strays []string) {
	m.rig.board.mu.Lock()
	cells := slices.Collect(maps.Values(m.rig.board.cells))
	strays = slices.Clone(m.rig.board.strays)
	m.rig.board.mu.Unlock()
	for _, c := range cells {
		c.mu.Lock()
		at := place{c.down, c.to.kind}
		for _, p := range c.problems[min(c.noted, len(c.problems)):] {
			m.record(c.feature, at, errors.Join(m.results[c.feature][at], errors.New("afterwards: "+p)))
		}
		c.mu.Unlock()
	}
	return strays
}

func (m *matrix) judgeRow(t *testing.T, f *feature) {
	t.Helper()
	expected := slices.Contains(notYet, f.name)
	failed, ran := 0, 0
	for _, down := range kinds() {
		for _, up := range kinds() {
			err, done := m.results[f][place{down, up}]
			impossible := f.impossible(down, up) != nil
			switch {
			case impossible && done:
				t.Errorf("%s to %s was run, and is impossible", down, up)
			case impossible:
			case !done && !m.runs(down, up):
			case !done:
				t.Errorf("%s to %s was not run", down, up)
			case err != nil:
				failed++
				ran++
				if !expected {
					t.Errorf("%s to %s: %v", down, up, err)
				} else if failed <= 3 || *all {
					t.Logf("not yet: %s to %s: %v", down, up, err)
				}
			default:
				ran++
			}
		}
	}
	switch {
	case expected && failed == 0:
		t.Errorf("works in all of its %d cells: take it off notYet", ran)
	case expected:
		t.Logf("not yet: %d of %d cells fail", failed, ran)
	}
}

// table renders what happened, one row per feature.
func (m *matrix) table() string {
	var b strings.Builder
	for _, f := range features {
		passed := 0
		for _, err := range m.results[f] {
			if err == nil {
				passed++
			}
		}
		fmt.Fprintf(&b, "%-60s %3d of %3d cells\n", f.name, passed, len(m.results[f]))
	}
	return b.String()
}

// The features of list changes, which all clients see at once.
const (
	listChanges    = "changes of lists"
	channelChanges = "changes of lists, for a client that opened no stream"
)

// together runs the cells of a change, which every client sees: one server
// after the other changes its lists, while all clients listen.
func (m *matrix) together(ctx context.Context) {
	var clients []*client
	for i, down := range kinds() {
		c, err := m.rig.connect(ctx, down, m.rig.workers[i%len(m.rig.workers)], "listener-"+down.slug(), declared(down))
		if err != nil {
			for _, up := range kinds() {
				m.both(place{down, up}, err)
			}
			continue
		}
		defer c.close()
		clients = append(clients, c)
	}
	listens := make(map[*client]*request)
	for _, c := range clients {
		if !c.kind.modern() {
			continue
		}
		at := place{c.kind, kinds()[0]}
		cell := m.open(rowOf(listChanges), c, at)
		req, err := cell.listen(ctx, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
		if err != nil {
			cell.problem("%v", err)
		}
		listens[c] = req
	}
	for _, up := range kinds() {
		m.change(ctx, clients, listens, up)
	}
}

func rowOf(name string) *feature {
	for _, f := range features {
		if f.name == name {
			return f
		}
	}
	return nil
}

// both records a cell of list changes in each of its rows.
func (m *matrix) both(at place, err error) {
	for _, name := range []string{listChanges, channelChanges} {
		if f := rowOf(name); f.impossible(at.down, at.up) == nil {
			m.record(f, at, err)
		}
	}
}

// change lets one server change its lists and waits until every client has been
// told and sees it.
func (m *matrix) change(ctx context.Context, clients []*client, listens map[*client]*request, up kind) {
	ctx, cancel := context.WithTimeout(ctx, *cellTime)
	defer cancel()
	before := make(map[*client]int)
	cells := make(map[*client]*cell)
	for _, c := range clients {
		cells[c] = m.open(rowOf(listChanges), c, place{c.kind, up})
		c.mu.Lock()
		before[c] = len(heardBy(c, listens[c]))
		c.mu.Unlock()
	}
	n := m.rig.targets[up][upstream.IsolateAuto].server.change()
	var running sync.WaitGroup
	for _, c := range clients {
		running.Go(func() {
			err := cells[c].sees(ctx, listens[c], before[c], n)
			cells[c].mu.Lock()
			for _, p := range cells[c].problems {
				err = errors.Join(err, errors.New(p))
			}
			cells[c].noted = len(cells[c].problems)
			cells[c].mu.Unlock()
			m.both(place{c.kind, up}, err)
		})
	}
	running.Wait()
}

// heardBy are the notifications that concern lists: on the client's channel, or
// on its subscription. The client's mutex is held.
func heardBy(c *client, listening *request) []mcp.Message {
	if listening != nil {
		return listening.notes
	}
	return c.aside
}

// sees waits for the three announcements and looks at the lists after each,
// until the n-th addition of the server is there.
func (c *cell) sees(ctx context.Context, listening *request, from, n int) error {
	for _, kind := range []mcp.Kind{mcp.Tool, mcp.Prompt, mcp.Resource} {
		key := c.to.tool(fmt.Sprintf("extra%d", n))
		if kind == mcp.Resource {
			key = c.to.uri(fmt.Sprintf("res://host/extra%d", n))
		}
		at := from
		for {
			if err := c.client.waitFor(ctx, kind.Changed(), func() bool {
				notes := heardBy(c.client, listening)
				for i := at; i < len(notes); i++ {
					if notes[i].Method == kind.Changed() {
						at = i + 1
						return true
					}
				}
				return false
			}); err != nil {
				return err
			}
			items, err := c.everyItem(ctx, kind)
			if err != nil {
				return err
			}
			if items[key] != nil {
				break
			}
		}
	}
	return nil
}
