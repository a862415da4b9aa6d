package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/demo"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/mcp"
)

// progress shows the table of servers while they start. On a terminal it redraws the
// table in place, elsewhere it prints a line for each change. It writes to stderr.
type progress struct {
	in     *daemon.Daemon
	out    io.Writer
	live   *screen.Live // the table on a terminal; nil elsewhere
	screen *screen.Screen
	quiet  bool

	mu    sync.Mutex
	shown bool              // nothing is written before this
	last  map[string]string // the last line printed for each server
	whole [][]string        // the rows, when not all of them are drawn
	done  bool              // the table is not redrawn any more
}

// liveOutput returns what to draw on, and to write everything else to meanwhile; nil if
// stderr is not a terminal on which a cursor can be moved.
func liveOutput(o *options) *screen.Live {
	if !term.IsTerminal(int(os.Stderr.Fd())) || os.Getenv("TERM") == "dumb" || o.verbose {
		return nil
	}
	return screen.NewLive(os.Stderr)
}

func newProgress(o *options, in *daemon.Daemon) *progress {
	p := &progress{in: in, out: os.Stderr, live: o.live, screen: screen.Of(os.Stderr), quiet: o.quiet, last: make(map[string]string)}
	if p.live != nil {
		p.out = p.live
	}
	return p
}

// show starts writing.
func (p *progress) show() {
	p.mu.Lock()
	p.shown = true
	p.mu.Unlock()
	p.changed()
}

// changed shows changes.
func (p *progress) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet || !p.shown {
		return
	}
	servers := p.in.Control().Servers()
	if p.live != nil && !p.done {
		p.draw(servers)
		return
	}
	for name := range p.last {
		if !slices.ContainsFunc(servers, func(s admin.Server) bool { return s.Name == name }) {
			delete(p.last, name)
			fsay(p.out, "%-12s %s\n", "removed", name)
		}
	}
	for i := range servers {
		s := &servers[i]
		said := fmt.Sprint(s.State, s.Stale, s.Tools, s.Reason)
		if p.last[s.Name] == said || s.State == mcp.Starting.String() && !s.Stale {
			continue
		}
		p.last[s.Name] = said
		line := fmt.Sprintf("%-12s %-14s %-7s %3d tools  %6s tokens  %s", s.State, s.Name, s.Kind, s.Tools, short(s.Tokens),
			seconds(time.Since(p.in.Started()).Seconds()))
		if s.Reason != "" {
			line += "  " + s.Reason
		}
		fsay(p.out, "%s\n", strings.TrimRight(line, " "))
	}
}

// draw replaces the table on a terminal. What does not fit is counted while servers start,
// and shown at the end. mu is held.
func (p *progress) draw(servers []admin.Server) {
	var text bytes.Buffer
	t := serverTable(servers)
	rows, left := t.rows, 0
	if room := p.screen.Height - tableRest; p.screen.Height > 0 && len(rows) > max(room, 1) {
		left = len(rows) - max(room, 1)
		rows = rows[:len(rows)-left]
	}
	_ = p.screen.Columns(&text, t.header[:len(t.header)-t.wide], rows)
	if left > 0 {
		fmt.Fprintf(&text, "and %s\n", screen.Count(left, "more server"))
	}
	p.live.Draw(text.Bytes())
	p.whole = nil
	if left > 0 {
		p.whole = t.rows
	}
	for i := range servers {
		s := &servers[i]
		p.last[s.Name] = fmt.Sprint(s.State, s.Stale, s.Tools, s.Reason)
	}
}

// settle stops the redrawing, so that other lines may follow the table.
func (p *progress) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live != nil && !p.done {
		if p.whole != nil {
			var text bytes.Buffer
			t := serverTable(nil)
			_ = p.screen.Columns(&text, t.header[:len(t.header)-t.wide], p.whole)
			p.live.Draw(nil)
			_, _ = p.live.Write(text.Bytes())
		}
		p.live.Keep()
	}
	p.done = true
}

// tableRest are the lines of the screen that are not for rows of the table: its header, the
// number of those left out, and the cursor.
const tableRest = 3

// introduceTime is how long the table is redrawn at most.
const introduceTime = 60 * time.Second

// introduce waits until all servers have answered or failed, and says how many are ready.
// For the demo it then makes a real call through the gateway's own URL.
func (p *progress) introduce(ctx context.Context, url string, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, introduceTime)
	defer cancel()
	p.show()
	defer p.settle()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !p.in.Settled() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	p.in.Settle(ctx)
	p.changed()
	p.settle()
	if ctx.Err() != nil {
		return
	}
	p.summarize(p.in.Control().Servers(), time.Since(began))
	if p.in.Current().Path == "" && !p.in.Authenticated() && url != "" {
		if line, err := demo.SelfTest(ctx, url); err != nil {
			note("%v", err)
		} else {
			say("%s\n", line)
		}
	}
	if p.live != nil {
		say("%s\n", nextStep(p.in.Current().Path))
	}
}

// summarize says how many servers are ready, and of the others why they are not, which the
// table has no room for.
func (p *progress) summarize(servers []admin.Server, took time.Duration) {
	ready, wanted, next := 0, 0, ""
	for i := range servers {
		s := &servers[i]
		switch s.State {
		case mcp.Disabled.String():
			continue
		case mcp.Ready.String():
			ready++
			if p.live != nil && s.Unreviewed != nil {
				say("%s: %s\n", s.Name, s.Reason)
			}
		default:
			switch {
			case s.State == mcp.Failed.String():
				next = "toolgate logs " + s.Name
			case next == "" && s.State == mcp.NeedsLogin.String():
				next = "toolgate login " + s.Name
			case next == "":
				next = "toolgate ls"
			}
			if p.live != nil && s.Reason != "" {
				say("%s: %s\n", s.Name, s.Reason)
			}
		}
		wanted++
	}
	if ready == wanted {
		say("ready    in %s\n", seconds(took.Seconds()))
		return
	}
	say("ready    %d of %s, in %s (%s)\n", ready, screen.Count(wanted, "server"), seconds(took.Seconds()), next)
}

// nextStep says what to do once a gateway runs.
func nextStep(path string) string {
	if path == "" {
		return "Next: toolgate import"
	}
	return "Next: toolgate tools, or toolgate connect CLIENT"
}
