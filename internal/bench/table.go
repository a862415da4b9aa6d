package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// verdict is what a figure is against its limit.
type verdict string

const (
	held   verdict = "pass"
	missed verdict = "FAIL"
	none   verdict = "" // there is no limit
)

// within judges by a limit.
func within[T cmp.Ordered](figure, limit T) verdict {
	if figure <= limit {
		return held
	}
	return missed
}

// row is one line of the table; an empty cell has nothing to say.
type row struct {
	name     string
	reverse  string
	toolgate string
	ratio    string
	limit    string
	alloc    string // KB allocated per call
	verdict  verdict
}

// table renders rows as Markdown.
func table(rows []row) string {
	cells := [][]string{{"case", "reverse proxy", "toolgate", "ratio", "limit", "KB/call", "result"}}
	for _, r := range rows {
		cells = append(cells, []string{r.name, r.reverse, r.toolgate, r.ratio, r.limit, r.alloc, string(r.verdict)})
	}
	return markdown(cells)
}

// markdown renders cells as a table whose columns line up; the first line is
// the head.
func markdown(cells [][]string) string {
	width := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, text := range line {
			width[i] = max(width[i], len([]rune(text)))
		}
	}
	var b strings.Builder
	for n, line := range cells {
		for i, text := range line {
			fmt.Fprintf(&b, "| %-*s ", width[i], text)
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, w := range width {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// machine says where the figures come from.
func machine() string {
	busy, _, _ := strings.Cut(readFirst("/proc/loadavg"), " ")
	return fmt.Sprintf("%s on %s/%s, %d CPUs, load average %s at the end",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cmp.Or(busy, "unknown"))
}

func readFirst(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// series is one figure of every round.
type series []float64

func (s series) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	if len(sorted) == 0 {
		return 0
	}
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

func (s series) best() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Min(s)
}

// per returns the ratios of two series, round by round.
func (s series) per(other series) series {
	out := make(series, min(len(s), len(other)))
	for i := range out {
		if other[i] > 0 {
			out[i] = s[i] / other[i]
		}
	}
	return out
}

// minus is what s is more than other, round by round.
func (s series) minus(other series) series {
	out := make(series, min(len(s), len(other)))
	for i := range out {
		out[i] = s[i] - other[i]
	}
	return out
}

// both renders the median and the best of a series.
func (s series) both(unit string) string {
	return fmt.Sprintf("%s (best %s) %s", short(s.median()), short(s.best()), unit)
}

// short renders a figure with three digits that count.
func short(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

// micros and millis are a time in their unit, divided by n.
func micros(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }
func millis(d time.Duration, n int) float64 { return micros(d, n) / 1e3 }
