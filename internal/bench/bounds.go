package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
)

const (
	// maxResolution, maxPermission and maxValidation are how long finding a tool,
	// deciding on a call and checking its arguments may take, in µs. What is
	// measured is a whole answer as the client sees it, and of arguments what the
	// audit log says.
	maxResolution, maxPermission, maxValidation = 5000.0, 10000.0, 2000.0
	// argumentBytes are those of a large call.
	argumentBytes = 64 << 10
	// invalidBytes are those of a call that is refused for its arguments.
	invalidBytes = 4 << 10
)

// benchBounds measures one client's calls behind every phase of the gate, among
// 1,000 tools: of a tool that nobody offers, with large arguments, and with
// arguments that the tool does not take.
func benchBounds(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"legacy", "json"}
	m, err := r.manyTools(s, listTools)
	if err != nil {
		return nil, err
	}
	r.token = "bench-key-0"
	var g gated
	if g.policy, err = defaultPolicy(); err != nil {
		return nil, err
	}
	if r.extra, err = g.settings(r.dir, m, []string{r.token}); err != nil {
		return nil, err
	}
	log := filepath.Join(r.dir, "audit-of-bounds.jsonl")
	r.extra["audit"] = map[string]any{"path": log, "mode": "required"}
	r.extra["limits"] = map[string]any{"unknown_per_minute": 0, "identical_calls": 0} // one caller asks for nothing else
	gate, err := r.gateway(m)
	if err != nil {
		return nil, err
	}
	if err := r.ready(gate, s.era, listServers*listTools); err != nil {
		return nil, err
	}
	load, err := r.loader(gate.url+"/mcp", s.era, "-prefix", "s0__")
	if err != nil {
		return nil, err
	}
	if _, err := load.order(order{Do: "open", Count: 1}); err != nil {
		return nil, gate.failure(err)
	}
	var rows []row
	for _, c := range []struct {
		name  string
		o     order
		limit float64
	}{
		{"a call of a tool that nobody offers, of 1,000: p99", order{Do: "nobody"}, maxResolution},
		{fmt.Sprintf("a call with %d KiB of arguments behind the gate: p99", argumentBytes>>10), order{Do: "say", Size: argumentBytes}, maxPermission},
		{fmt.Sprintf("a call refused for %d KiB of arguments: p99", invalidBytes>>10), order{Do: "refused", Size: invalidBytes}, 0},
	} {
		c.o.Count, c.o.Most = n.warm, n.roundTime
		if _, err := load.order(c.o); err != nil {
			return nil, gate.failure(err)
		}
		var p99 series
		for range n.rounds {
			report, err := load.order(c.o)
			if err != nil {
				return nil, gate.failure(err)
			}
			if report.Failed > 0 || report.Done == 0 {
				return nil, gate.failure(fmt.Errorf("%s: %d of %d failed: %s", c.name, report.Failed, report.Done+report.Failed, report.Why))
			}
			p99 = append(p99, micros(report.P99, 1))
		}
		line := row{name: c.name, toolgate: p99.both("µs")}
		if c.limit > 0 {
			line.limit, line.verdict = fmt.Sprintf("%v µs", c.limit), within(p99.median(), c.limit)
		}
		rows = append(rows, line)
	}
	checked, err := refusedArguments(r.ctx, log, n.rounds)
	if err != nil {
		return nil, gate.failure(err)
	}
	return append(rows, row{
		name: "- until its arguments were found wrong, by the audit log: p99", toolgate: checked.both("µs"),
		limit: fmt.Sprintf("%v µs", maxValidation), verdict: within(checked.median(), maxValidation),
	}), nil
}

// refusedArguments reads from an audit log how long after its beginning each call
// was refused for its arguments, and returns the 99th percentile of so many parts
// of them, in µs.
func refusedArguments(ctx context.Context, log string, parts int) (series, error) {
	var all []float64
	read := func() error {
		text, err := os.ReadFile(log)
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		all = nil
		for line := range bytes.Lines(text) {
			if !bytes.Contains(line, []byte(`"phase":"arguments","verdict":"deny"`)) {
				continue
			}
			var e audit.Entry
			if err := json.Unmarshal(line, &e); err != nil {
				return fmt.Errorf("read the audit log: %w", err)
			}
			for _, s := range e.Steps {
				if s.Phase == "arguments" {
					all = append(all, float64(s.US))
				}
			}
		}
		return nil
	}
	for range 50 { // what was written last is there within a moment
		if err := read(); err != nil {
			return nil, err
		}
		if len(all) >= parts {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if len(all) < parts {
		return nil, fmt.Errorf("the audit log has %d calls that were refused for their arguments", len(all))
	}
	var p99 series
	for part := range slices.Chunk(all, len(all)/parts) {
		slices.Sort(part)
		p99 = append(p99, part[len(part)*99/100])
	}
	return p99, nil
}
