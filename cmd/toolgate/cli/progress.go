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

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/demo"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/mcp"
)

// progress shows the servers. On a terminal it redraws a table in its place while they
// start, and says in sentences what happens to them afterwards. Elsewhere it prints a line
// for each change.
type progress struct {
	in     *daemon.Daemon
	out    io.Writer
	live   *screen.Live          // the table on a terminal; nil elsewhere
	screen *screen.Screen        // as it was last seen
	size   func() *screen.Screen // the screen now
	quiet  bool

	mu    sync.Mutex
	shown bool              // nothing is written before this
	last  map[string]string // the last line printed for each server
	told  announced         // since the table is settled
	whole [][]string        // the rows, when not all of them are drawn
	done  bool              // the table is not redrawn any more
}

// liveOutput returns what to draw on, and to write everything else to meanwhile; nil if
// stderr is not a terminal on which a cursor can be moved.
func liveOutput(o *command.Options) *screen.Live {
	if !term.IsTerminal(int(os.Stderr.Fd())) || os.Getenv("TERM") == "dumb" || o.Verbose {
		return nil
	}
	live := screen.NewLive(os.Stderr)
	if screen.Wraps() {
		live.Width = func() int { return screen.Of(os.Stderr).Width }
	}
	return live
}

func newProgress(o *command.Options, in *daemon.Daemon) *progress {
	p := &progress{in: in, out: os.Stdout, live: o.Live, screen: &screen.Screen{}, quiet: o.Quiet, last: make(map[string]string)}
	if p.live != nil {
		p.size = func() *screen.Screen { return screen.Of(os.Stderr) }
		p.out, p.screen = p.live, p.size()
	}
	return p
}

// resized looks how large the screen is now, and tells whether that is new.
func (p *progress) resized() bool {
	if p.size == nil {
		return false
	}
	now := p.size()
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := *now != *p.screen
	p.screen = now
	return changed
}

// show starts writing.
func (p *progress) show() {
	p.mu.Lock()
	p.shown = true
	p.mu.Unlock()
	p.changed()
}

// end stops all writing.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = false
}

// changed shows changes.
func (p *progress) changed() {
	p.resized()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet || !p.shown {
		return
	}
	servers := p.in.Control().Servers()
	switch {
	case p.live != nil && !p.done:
		p.draw(servers)
		return
	case p.live != nil:
		for _, line := range p.told.changes(servers, time.Now()) {
			p.sentence(line)
		}
		return
	}
	for name := range p.last {
		if !slices.ContainsFunc(servers, func(s admin.Server) bool { return s.Name == name }) {
			delete(p.last, name)
			output.SayTo(p.out, "%-12s %s\n", "removed", name)
		}
	}
	for i := range servers {
		s := &servers[i]
		said := fmt.Sprint(s.State, s.Stale, s.Tools, s.Reason)
		if p.last[s.Name] == said || s.State == mcp.Starting.String() && !s.Stale {
			continue
		}
		p.last[s.Name] = said
		line := fmt.Sprintf("%-12s %-14s %-7s %3d tools  %6s tokens  %s", s.State, s.Name, s.Kind, s.Tools, output.Short(s.Tokens),
			output.Seconds(time.Since(p.in.Started()).Seconds()))
		if s.Reason != "" {
			line += "  " + s.Reason
		}
		output.SayTo(p.out, "%s\n", strings.TrimRight(line, " "))
	}
}

// draw replaces the table on a terminal. What does not fit is counted while servers start,
// and shown at the end. mu is held.
func (p *progress) draw(servers []admin.Server) {
	var text bytes.Buffer
	t := serverTable(servers)
	rows, left := t.Rows, 0
	if room := p.screen.Height - tableRest; p.screen.Height > 0 && len(rows) > max(room, 1) {
		left = len(rows) - max(room, 1)
		rows = rows[:len(rows)-left]
	}
	_ = p.screen.Columns(&text, t.Header[:len(t.Header)-t.Wide], rows)
	if left > 0 {
		fmt.Fprintf(&text, "and %s\n", screen.Count(left, "more server"))
	}
	p.live.Draw(text.Bytes())
	p.whole = nil
	if left > 0 {
		p.whole = t.Rows
	}
	p.told.note(servers)
}

// settle stops the redrawing, so that other lines may follow the table.
func (p *progress) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live != nil && !p.done {
		if p.whole != nil {
			var text bytes.Buffer
			t := serverTable(nil)
			_ = p.screen.Columns(&text, t.Header[:len(t.Header)-t.Wide], p.whole)
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

const (
	// introduceTime is how long the table is redrawn at most.
	introduceTime = 60 * time.Second
	// redrawPause is how often it is redrawn while nothing else changes than times.
	redrawPause = 500 * time.Millisecond
)

// introduce waits until all servers have answered or failed, and says how many are ready.
// For the demo it then makes a real call through the gateway's own URL.
func (p *progress) introduce(ctx context.Context, url string, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, introduceTime)
	defer cancel()
	p.show()
	defer p.settle()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for drawn := time.Now(); !p.in.Settled(); {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.live != nil && (p.resized() || time.Since(drawn) > redrawPause) { // the times go on
			drawn = time.Now()
			p.changed()
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
			output.Warn("%v", err)
		} else {
			output.Say("%s\n", line)
		}
	}
	if p.live != nil {
		output.Say("%s\n", nextStep(p.in.Current().Path))
	}
}

// watch announces what happens to servers until ctx ends, also what was held back because
// they kept changing.
func (p *progress) watch(ctx context.Context) {
	if p.live == nil {
		return
	}
	tick := time.NewTicker(announcedTime / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.changed()
		}
	}
}

// sentence writes one for a person. mu is held.
func (p *progress) sentence(text string) {
	_, _ = io.WriteString(p.out, p.screen.Wrap(output.Escaped(text))) // there is nobody to report an error to
}

// summarize says how many servers are ready, and of the others why they are not, which the
// table has no room for. It says once how to learn more.
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
				output.Say("%s: %s\n", s.Name, s.Reason)
			}
		default:
			switch {
			case s.State == mcp.Failed.String():
				next = "toolgate doctor"
			case next == "" && s.State == mcp.NeedsLogin.String():
				next = "toolgate login " + s.Name
			case next == "":
				next = "toolgate ls"
			}
			if p.live != nil {
				p.mu.Lock()
				p.sentence(happened(s, ""))
				p.mu.Unlock()
			}
		}
		wanted++
	}
	if ready == wanted {
		output.Say("ready    in %s\n", output.Seconds(took.Seconds()))
		return
	}
	output.Say("ready    %d of %s, in %s (%s)\n", ready, screen.Count(wanted, "server"), output.Seconds(took.Seconds()), next)
}

// nextStep says what to do once a gateway runs.
func nextStep(path string) string {
	switch {
	case path == "" && len(clients.Installed(places(here()))) > 0:
		return "Next: toolgate import"
	case path == "": // there is nothing to import
		return "Next: toolgate tools, and then toolgate call NAME"
	}
	return "Next: toolgate tools, or toolgate connect CLIENT\nCalls, as they happen: toolgate audit tail -f"
}

// announced is what a person was told of each server, so that each change is said once. A
// server that keeps changing is announced maxAnnounced times per announcedTime at most; what it is
// then is announced later. The zero value knows nothing. It is not safe for concurrent use.
type announced struct{ servers map[string]*announcedState }

// announcedState is what was said of a server.
type announcedState struct {
	state string // the last one that was said
	said  []time.Time
	seen  bool // it is still in the configuration
}

const (
	maxAnnounced  = 4
	announcedTime = time.Minute
)

// note records the servers as said.
func (a *announced) note(servers []admin.Server) {
	a.servers = make(map[string]*announcedState, len(servers))
	for i := range servers {
		a.servers[servers[i].Name] = &announcedState{state: servers[i].State}
	}
}

// changes returns a sentence for each change since the last call.
func (a *announced) changes(servers []admin.Server, now time.Time) []string {
	if a.servers == nil {
		a.servers = make(map[string]*announcedState)
	}
	var lines []string
	for i := range servers {
		s := &servers[i]
		was := a.servers[s.Name]
		if was == nil {
			was = &announcedState{}
			a.servers[s.Name] = was
		}
		was.seen = true
		if s.State == was.state || s.State == mcp.Starting.String() || down(s.State) && down(was.state) {
			continue
		}
		for len(was.said) > 0 && now.Sub(was.said[0]) > announcedTime {
			was.said = was.said[1:]
		}
		if len(was.said) >= maxAnnounced {
			continue
		}
		was.said = append(was.said, now)
		line := happened(s, was.state)
		if len(was.said) == maxAnnounced {
			line += fmt.Sprintf("; it keeps changing, see `toolgate logs %s`", s.Name)
		}
		lines, was.state = append(lines, line), s.State
	}
	for name, was := range a.servers {
		if !was.seen {
			lines = append(lines, name+" is removed")
			delete(a.servers, name)
		}
		was.seen = false
	}
	return lines
}

// down tells whether a server in a state has failed, for now or for good.
func down(state string) bool {
	switch state {
	case mcp.Failed.String(), mcp.Reconnecting.String(), mcp.Stale.String(), mcp.Degraded.String():
		return true
	}
	return false
}

// happened says in a sentence in which state a server is. was is the state before; empty if
// there was none.
func happened(s *admin.Server, was string) string {
	text := s.Name + " is " + s.State
	switch {
	case s.State == mcp.Ready.String() && (down(was) || was == mcp.NeedsLogin.String()):
		return text + " again"
	case s.State == mcp.Ready.String():
		return text + ", " + screen.Count(s.Tools, "tool")
	case s.State == mcp.NeedsLogin.String():
		return s.Name + " waits for a login: toolgate login " + s.Name
	case down(s.State):
		text = s.Name + " failed"
	}
	return strings.TrimSuffix(text+": "+s.Reason, ": ")
}
