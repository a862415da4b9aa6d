package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// clients is how many clients call at the same time.
const clients = 16

// counts are how much of everything a run does.
type counts struct {
	judge bool // whether a missed limit fails the run

	turns     int           // of proxies that are compared
	turn      int           // calls in one turn
	rounds    int           // of what has no other to be compared with
	calls     int           // per round
	warm      int           // calls before the first round
	roundTime time.Duration // bounds one round

	lists     int           // whole lists per round
	sessions  int           // idle ones
	servers   int           // of one gateway
	processes int           // of them, that are processes of it
	suspended int           // calls that wait for their client
	settle    time.Duration // lets the memory of what was just done be given back
	large     int           // calls with a result of 1 MB per round
	huge      int           // results of 20 MB in a row
	fresh     int           // rounds of cases that start toolgate anew
	removals  int           // of a relation
	bytes     struct{ large, huge int }

	beside time.Duration // how long ailing servers are called beside a healthy one

	before, down, after time.Duration // of a server that is killed under load
}

func benchCounts(quick bool) counts {
	c := counts{
		judge: true, turns: 48, turn: 1000, rounds: 7, calls: 5000, warm: 2000, roundTime: 2 * time.Second,
		lists: 800, sessions: 500, servers: 1000, processes: 200, suspended: 1000, settle: 6 * time.Second, large: 100, huge: 5, fresh: 3, removals: 50,
		beside: 2 * time.Second,
		before: 400 * time.Millisecond, down: 600 * time.Millisecond, after: 1500 * time.Millisecond,
	}
	c.bytes.large, c.bytes.huge = 1<<20, 20<<20
	if quick {
		c = counts{
			turns: 1, turn: 64, rounds: 1, calls: 64, warm: 16, roundTime: 10 * time.Second,
			lists: 4, sessions: 8, servers: 12, processes: 4, suspended: 8, settle: 50 * time.Millisecond, large: 2, huge: 1, fresh: 1, removals: 3,
			beside: 300 * time.Millisecond,
			before: 50 * time.Millisecond, down: 50 * time.Millisecond, after: 1500 * time.Millisecond,
		}
		c.bytes.large, c.bytes.huge = 1<<20, 4<<20
	}
	return c
}

// trial is one thing to measure; it returns the lines of the table.
type trial struct {
	name string
	run  func(context.Context, *lab, *counts) ([]row, error)
}

var trials = func() []trial {
	var all []trial
	for _, era := range []string{"legacy", "modern"} {
		for _, answers := range []string{"json", "sse"} {
			s := setting{era, answers}
			all = append(all, trial{"echo, " + s.String(), func(ctx context.Context, l *lab, c *counts) ([]row, error) {
				return benchCalls(ctx, l, c, s)
			}})
		}
	}
	for _, era := range []string{"legacy", "modern"} {
		for _, answers := range []string{"json", "sse"} {
			s := setting{era, answers}
			all = append(all, trial{"light, " + s.String(), func(ctx context.Context, l *lab, c *counts) ([]row, error) {
				return benchLight(ctx, l, c, s)
			}}, trial{"many upstreams, " + s.String(), func(ctx context.Context, l *lab, c *counts) ([]row, error) {
				return benchSeveral(ctx, l, c, s)
			}})
		}
		all = append(all, trial{"stdio, " + era, func(ctx context.Context, l *lab, c *counts) ([]row, error) {
			return benchStdio(ctx, l, c, era)
		}})
	}
	for _, era := range []string{"legacy", "modern", askable} {
		all = append(all, trial{"cross, " + era, func(ctx context.Context, l *lab, c *counts) ([]row, error) {
			return benchCross(ctx, l, c, era)
		}})
	}
	for _, credential := range []string{"API key", "JWT"} {
		for _, policy := range []string{"default policy", "kept decision"} {
			all = append(all, trial{"gate, " + credential + ", " + policy, func(ctx context.Context, l *lab, c *counts) ([]row, error) {
				return benchGate(ctx, l, c, credential, policy)
			}})
		}
	}
	all = append(all, trial{"budget", benchBudget})
	all = append(all, trial{"gate, list", benchGatedList}, trial{"gate, bounds", benchBounds}, trial{"gate, relations", benchRelations})
	all = append(all, trial{"breaker, refusal", benchRefusal}, trial{"breaker, neighbours", benchDisturbed})
	all = append(all, trial{"telemetry", benchTelemetry}, trial{"watched", benchWatched}, trial{"credentials", benchCredentials}, trial{"everything", benchEverything})
	all = append(all, trial{"rates", benchRates}, trial{"parked", benchSuspended})
	all = append(all, trial{"list", benchLists}, trial{"idle sessions", benchSessions}, trial{"many servers", benchMany}, trial{"waiting runs", benchRuns})
	for _, answers := range []string{"json", "sse"} {
		s := setting{"legacy", answers}
		all = append(all, trial{"large results, " + s.String(), func(ctx context.Context, l *lab, c *counts) ([]row, error) {
			return benchLarge(ctx, l, c, s)
		}})
	}
	all = append(all, trial{"start", benchStart})
	all = append(all, trial{"native, calls", benchNativeCalls}, trial{"native, start", benchNativeStart}, trial{"native, handshake", benchHandshake})
	for _, era := range []string{"legacy", "modern"} {
		s := setting{era, "json"}
		all = append(all, trial{"restart, " + s.String(), func(ctx context.Context, l *lab, c *counts) ([]row, error) {
			return benchRestart(ctx, l, c, s)
		}})
	}
	return all
}()

// bench runs the trials and writes their table. A missed limit is errMissed,
// once everything has been measured.
func bench(ctx context.Context, l *lab, c counts, only string, out io.Writer) error {
	began := time.Now()
	var rows []row
	for _, t := range trials {
		if !strings.Contains(t.name, only) {
			continue
		}
		l.note("measuring: %s", t.name)
		got, err := t.run(ctx, l, &c)
		if err != nil {
			fmt.Fprint(out, table(rows)) // what is known so far
			return fmt.Errorf("%s: %w", t.name, err)
		}
		rows = append(rows, got...)
	}
	return finish(rows, c, time.Since(began), out)
}

// finish writes the table and judges it.
func finish(rows []row, c counts, took time.Duration, out io.Writer) error {
	fmt.Fprint(out, table(rows))
	fmt.Fprintf(out, "\n%s; took %v.\n", machine(), took.Round(time.Second))
	if !c.judge {
		return nil
	}
	for _, r := range rows {
		if r.verdict == missed {
			return errMissed
		}
	}
	return nil
}
