package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// soakSizes are the counts of the long run.
type soakSizes struct {
	judge    bool
	sessions int // opened and ended, with one call each
	calls    int
	restarts int // of the server behind toolgate
	settle   time.Duration
}

func soakCounts(quick bool) soakSizes {
	if quick {
		return soakSizes{sessions: 60, calls: 400, restarts: 3, settle: 100 * time.Millisecond}
	}
	return soakSizes{judge: true, sessions: 30_000, calls: 200_000, restarts: 1000, settle: 10 * time.Second}
}

const (
	// maxMore is how many goroutines and open files may be there at the end
	// that were not there before: connections that wait to be used again.
	maxMore = 24
	// maxMoreMemory is how much larger the process may be at the end, in MB:
	// the heap is as large as the garbage collector leaves it at the moment.
	maxMoreMemory = 16.0
	// soakOrder bounds one order of a long run.
	soakOrder = 10 * time.Minute
)

// holding is what a toolgate process holds at a moment.
type holding struct {
	memory     float64 // MB, resident
	heap       float64 // MB
	goroutines int
	files      int
}

func holds(ctx context.Context, s *server) (holding, error) {
	m, err := memoryOf(s.pid())
	if err != nil {
		return holding{}, err
	}
	c, err := s.counters(ctx)
	if err != nil {
		return holding{}, err
	}
	files, err := openFiles(s.pid())
	return holding{
		memory: float64(m.resident) / (1 << 20), heap: c.heap / (1 << 20), goroutines: int(c.goroutines), files: files,
	}, err
}

// burden is one thing that is done very often.
type burden struct {
	name string
	full int
	// run does so many of them.
	run func(r *room, c *contestant, up **server, count int) error
	// extra are settings of the gateway.
	extra map[string]any
}

// soak does everything a tenth of its count to warm up, looks at what toolgate
// holds, does the whole count and looks again.
func soak(ctx context.Context, l *lab, n soakSizes, only string, out io.Writer) error {
	began := time.Now()
	s := setting{"legacy", "json"}
	byOrder := func(do string) func(*room, *contestant, **server, int) error {
		return func(_ *room, c *contestant, _ **server, count int) error {
			r, err := c.load.order(order{Do: do, Count: count, Most: soakOrder})
			if err == nil && r.Done != count {
				err = fmt.Errorf("%d of %d done within %v", r.Done, count, soakOrder)
			}
			return err
		}
	}
	churn := func(r *room, c *contestant, up **server, count int) error {
		if _, err := c.load.order(order{Do: "end"}); err != nil { // the sessions of before
			return err
		}
		return byOrder("churn")(r, c, up, count)
	}
	burdens := []burden{
		{name: "sessions opened, used once and ended", full: n.sessions, run: churn},
		{name: "the same with every limit of how often", full: n.sessions, run: churn, extra: paced()},
		{name: "calls over 16 sessions", full: n.calls, run: byOrder("echo")},
		{name: "restarts of the server under its sessions", full: n.restarts, run: func(r *room, c *contestant, up **server, count int) error {
			for i := range count {
				if err := restart(r, c, up, s); err != nil {
					return fmt.Errorf("restart %d: %w", i+1, err)
				}
			}
			return nil
		}},
	}
	cells := [][]string{{"what", "count", "memory MB", "heap MB", "goroutines", "open files", "took", "result"}}
	fine := true
	for _, b := range burdens {
		if !strings.Contains(b.name, only) {
			continue
		}
		l.note("soaking: %d %s", b.full, b.name)
		line, ok, err := b.bear(ctx, l, n, s)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		cells, fine = append(cells, line), fine && ok
	}
	fmt.Fprintf(out, "Commit %s. %s; took %v. Each figure is before and after: before is after a tenth of the count.\n\n",
		commit(ctx), machine(), time.Since(began).Round(time.Second))
	fmt.Fprint(out, markdown(cells))
	if n.judge && !fine {
		return errMissed
	}
	return nil
}

func (b *burden) bear(ctx context.Context, l *lab, n soakSizes, s setting) (_ []string, ok bool, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, false, err
	}
	r.extra = b.extra
	gate, err := r.gateway(mounts{"fast": up.url + "/mcp"})
	if err != nil {
		return nil, false, err
	}
	if err := r.ready(gate, s.era, ownTools); err != nil {
		return nil, false, err
	}
	c, err := r.enroll(gate, s.era, clients)
	if err != nil {
		return nil, false, err
	}
	look := func(count int) (holding, error) {
		if err := b.run(r, c, &up, count); err != nil {
			return holding{}, gate.failure(err)
		}
		if err := pause(ctx, n.settle); err != nil {
			return holding{}, err
		}
		return holds(ctx, gate)
	}
	before, err := look(max(1, b.full/10))
	if err != nil {
		return nil, false, err
	}
	began := time.Now()
	after, err := look(b.full)
	if err != nil {
		return nil, false, err
	}
	took := time.Since(began) - n.settle
	ok = after.memory-before.memory <= maxMoreMemory &&
		after.goroutines-before.goroutines <= maxMore && after.files-before.files <= maxMore
	v := held
	if !ok {
		v = missed
	}
	return []string{
		b.name, fmt.Sprint(b.full), fmt.Sprintf("%.1f → %.1f", before.memory, after.memory),
		fmt.Sprintf("%.1f → %.1f", before.heap, after.heap), fmt.Sprintf("%d → %d", before.goroutines, after.goroutines),
		fmt.Sprintf("%d → %d", before.files, after.files), took.Round(time.Second).String(), string(v),
	}, ok, nil
}

// restart kills the server, starts it again and waits until the calls of all
// clients are answered.
func restart(r *room, c *contestant, up **server, s setting) error {
	old := *up
	old.kill()
	fresh, err := r.fastUpstream(s, "-listen", strings.TrimPrefix(old.url, "http://"))
	if err != nil {
		return err
	}
	r.forget(old.process)
	*up = fresh
	deadline := time.Now().Add(startTime)
	for {
		got, err := c.load.order(order{Do: "echo", Count: clients, Most: startTime, Tolerate: true})
		if err != nil {
			return err
		}
		if got.Failed == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("still failing after %v: %s", startTime, got.Why)
		}
	}
}

// forget drops a program that has ended.
func (r *room) forget(p *process) {
	for i, q := range r.running {
		if q == p {
			r.running = append(r.running[:i], r.running[i+1:]...)
			return
		}
	}
}

// commit is what is measured, as far as that can be told.
func commit(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
