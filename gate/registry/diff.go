package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Limits of a diff, in lines.
const (
	diffContext = 3
	maxDiff     = 400  // shown
	maxEdits    = 1000 // searched for; beyond it, everything is shown as removed and added
)

// Pretty returns a definition for people: its canonical form with one member per line.
// Invisible characters are escaped. A line break in a text begins a new line.
func Pretty(definition []byte) string {
	if len(definition) == 0 {
		return ""
	}
	canonical := mcp.AppendCanonical(nil, definition)
	var indented bytes.Buffer
	if json.Indent(&indented, canonical, "", "  ") != nil {
		return "(not readable)\n"
	}
	var b strings.Builder
	for line := range strings.Lines(indented.String()) {
		line = strings.TrimSuffix(line, "\n")
		margin := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+4)
		for i, part := range strings.SplitAfter(line, `\n`) {
			if i > 0 {
				if part == "" {
					continue
				}
				b.WriteString("\n" + margin)
			}
			b.WriteString(visible(part))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// visible escapes what a person would not see.
func visible(line string) string {
	var b strings.Builder
	before := rune(0)
	for _, r := range line {
		if isHidden(r, before) {
			fmt.Fprintf(&b, `\u{%x}`, r)
		} else {
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

// Diff returns the changes between two definitions as a unified diff of their [Pretty]
// forms. It is empty when they are equal, and bounded in length.
func Diff(before, after []byte) string {
	a, b := lines(Pretty(before)), lines(Pretty(after))
	hunks := render(edits(a, b))
	if len(hunks) == 0 {
		return ""
	}
	out := append([]string{"--- accepted", "+++ held"}, hunks...)
	if len(out) > maxDiff {
		left := len(out) - maxDiff
		out = append(out[:maxDiff:maxDiff], fmt.Sprintf("... %d more lines", left))
	}
	return strings.Join(out, "\n") + "\n"
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// edit is one line of a comparison: ' ' in both, '-' removed, '+' added.
type edit struct {
	op   byte
	text string
}

// edits compares two texts line by line. Equal lines at both ends are set aside; the
// greedy algorithm of Myers compares the rest.
func edits(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []edit
	for _, l := range a[:head] {
		out = append(out, edit{' ', l})
	}
	out = append(out, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		out = append(out, edit{' ', l})
	}
	return out
}

// middle compares texts that differ at both ends.
func middle(a, b []string) []edit {
	most := min(len(a)+len(b), maxEdits)
	furthest := make([]int, 2*most+2) // by diagonal, how far into a
	var trace [][]int
	for d := 0; d <= most; d++ {
		for k := -d; k <= d; k += 2 {
			x := 0
			switch {
			case d == 0:
			case k == -d || k != d && furthest[most+k-1] < furthest[most+k+1]:
				x = furthest[most+k+1]
			default:
				x = furthest[most+k-1] + 1
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			furthest[most+k] = x
			if x >= len(a) && x-k >= len(b) {
				return walk(a, b, trace)
			}
		}
		trace = append(trace, append([]int(nil), furthest[most-d:most+d+1]...))
	}
	out := make([]edit, 0, len(a)+len(b))
	for _, l := range a {
		out = append(out, edit{'-', l})
	}
	for _, l := range b {
		out = append(out, edit{'+', l})
	}
	return out
}

// walk follows the trace of middle backwards: trace[d] says how far into a the
// diagonals -d to d were after d edits.
func walk(a, b []string, trace [][]int) []edit {
	x, y := len(a), len(b)
	var back []edit
	for d := len(trace); d > 0; d-- {
		before := func(k int) int { // the better of the neighboring diagonals
			if k < 1-d || k > d-1 {
				return -1
			}
			return trace[d-1][k+d-1]
		}
		k := x - y
		insert := k == -d || k != d && before(k-1) < before(k+1)
		from, start := k-1, before(k-1)+1
		if insert {
			from, start = k+1, before(k+1)
		}
		for ; x > start; x, y = x-1, y-1 {
			back = append(back, edit{' ', a[x-1]})
		}
		if insert {
			back = append(back, edit{'+', b[y-1]})
		} else {
			back = append(back, edit{'-', a[x-1]})
		}
		x = before(from)
		y = x - from
	}
	for ; x > 0; x-- {
		back = append(back, edit{' ', a[x-1]})
	}
	slices.Reverse(back)
	return back
}

// render returns the changed lines with a few unchanged lines around them.
func render(all []edit) []string {
	near := make([]bool, len(all))
	for i, e := range all {
		if e.op == ' ' {
			continue
		}
		for j := max(0, i-diffContext); j <= min(len(all)-1, i+diffContext); j++ {
			near[j] = true
		}
	}
	var out []string
	oldLine, newLine := 1, 1
	for i, e := range all {
		if near[i] {
			if i == 0 || !near[i-1] {
				out = append(out, fmt.Sprintf("@@ -%d +%d @@", oldLine, newLine))
			}
			out = append(out, string(e.op)+e.text)
		}
		if e.op != '+' {
			oldLine++
		}
		if e.op != '-' {
			newLine++
		}
	}
	return out
}
