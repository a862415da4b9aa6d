//go:build e2e

package matrix

import (
	"context"
	"fmt"
	"sync"
)

// cell is one feature between one client and one server. Both peers report to
// it: what they saw, and what broke the rules. It is safe for concurrent use.
type cell struct {
	id      string // in every message of the cell, as its canary
	feature *feature
	down    kind
	to      *target
	client  *client

	mu       sync.Mutex
	problems []string
	noted    int // of the problems are in the result
	said     map[string][]string
	changed  chan struct{} // closed and replaced when something is said
}

// problem notes a broken rule; the cell fails.
func (c *cell) problem(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) < 10 {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// say notes something that a peer saw.
func (c *cell) say(what, detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said[what] = append(c.said[what], detail)
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until something was said and returns the first word of it.
func (c *cell) await(ctx context.Context, what string) (string, error) {
	for {
		c.mu.Lock()
		said, changed := c.said[what], c.changed
		c.mu.Unlock()
		if len(said) > 0 {
			return said[0], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for %q: %w", what, context.Cause(ctx))
		}
	}
}

// board finds the cell that a message belongs to, by the id in it.
type board struct {
	mu     sync.Mutex
	next   int
	cells  map[string]*cell
	strays []string // broken rules outside of every cell
}

// open puts a cell on the board.
func (b *board) open(c *cell) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	c.id = fmt.Sprintf("c%d", b.next)
	c.said, c.changed = make(map[string][]string), make(chan struct{})
	b.cells[c.id] = c
}

// cell returns the cell with an id, nil when there is none.
func (b *board) cell(id string) *cell {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cells[id]
}

// problem notes a broken rule with the cell that it belongs to.
func (b *board) problem(id, format string, args ...any) {
	if c := b.cell(id); c != nil {
		c.problem(format, args...)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.strays) < 20 {
		b.strays = append(b.strays, fmt.Sprintf(format, args...))
	}
}

// say notes what a peer saw, for its cell.
func (b *board) say(id, what, detail string) {
	if c := b.cell(id); c != nil {
		c.say(what, detail)
	}
}
