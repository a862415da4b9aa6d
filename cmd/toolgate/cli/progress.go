package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
)

// progress shows the table of servers while they start. On a terminal it redraws the
// table in place, elsewhere it prints a line for each change. It writes to stderr.
type progress struct {
	in    *daemon.Daemon
	out   io.Writer
	tty   bool
	quiet bool

	mu    sync.Mutex
	shown bool              // nothing is written before this
	lines int               // on the screen, to be redrawn
	last  map[string]string // the last line printed for each server
	done  bool
}

func newProgress(o *options, in *daemon.Daemon) *progress {
	return &progress{
		in: in, out: os.Stderr, quiet: o.quiet, last: make(map[string]string),
		tty: term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb" && !o.verbose,
	}
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
	if p.tty && !p.done {
		p.redraw(servers)
		return
	}
	for _, s := range servers {
		said := fmt.Sprint(s.State, s.Stale, s.Tools, s.Reason)
		if p.last[s.Name] == said || s.State == "starting" && !s.Stale {
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

// redraw replaces the table on a terminal. The caller holds mu.
func (p *progress) redraw(servers []admin.Server) {
	var text strings.Builder
	t := serverTable(servers)
	columns := len(t.header) - t.wide
	_ = writeColumns(&text, t.header[:columns], t.rows, columns)
	if p.lines > 0 {
		fmt.Fprintf(p.out, "\x1b[%dA\x1b[J", p.lines)
	}
	fmt.Fprint(p.out, text.String())
	p.lines = strings.Count(text.String(), "\n")
	for _, s := range servers {
		p.last[s.Name] = fmt.Sprint(s.State, s.Stale, s.Tools, s.Reason)
	}
}

// settle stops the redrawing, so that other lines may follow the table.
func (p *progress) settle() {
	p.mu.Lock()
	p.done = true
	p.mu.Unlock()
}

// introduceTime is how long the table is redrawn at most.
const introduceTime = 60 * time.Second

// introduce waits until all servers have answered or failed. For the demo it then makes a
// real call through the gateway's own URL.
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
	p.settle()
	if ctx.Err() != nil {
		return
	}
	say("ready    in %s\n", seconds(time.Since(began).Seconds()))
	if p.in.Current().Path == "" && !p.in.Authenticated() && url != "" {
		selfTest(ctx, url)
	}
}
