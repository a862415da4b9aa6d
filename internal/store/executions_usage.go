package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxUsageRows bounds the executions of one query; the latest count.
const maxUsageRows = 1_000_000

// maxUsageGroups bounds the rows of a result.
const maxUsageGroups = 1_000

// UsageBy are the fields by which executions can be grouped.
var UsageBy = []string{"tool", "server", "tenant", "persona"}

// Usage summarises the executions of a group.
type Usage struct {
	Group             []string         // values of the grouping fields
	Calls             int64            //
	Failures          int64            // of them
	Errors            map[string]int64 // failures by class
	P50, P95          time.Duration    // of all calls
	BytesIn, BytesOut int64
	BytesSaved        int64 // that results had less because they were shaped
}

// UsageStatement returns the statement of [Executions.Usage] with its arguments.
func UsageStatement(since time.Time, by ...string) (text string, args []any, err error) {
	columns := map[string]string{"tool": "tool", "server": "server", "tenant": "tenant", "persona": "persona_id"}
	var list []string
	for _, name := range by {
		column, ok := columns[name]
		if !ok {
			return "", nil, fmt.Errorf("usage cannot be shown by %q; write %s", name, strings.Join(UsageBy, ", "))
		}
		list = append(list, column)
	}
	return `SELECT ` + strings.Join(append(list, "error_class", "duration_us", "request_size", "response_size", "bytes_saved"), ", ") +
		` FROM tool_execution_log WHERE at >= ? ORDER BY at DESC LIMIT ?`, []any{since.UnixMilli(), maxUsageRows}, nil
}

// Usage returns the executions since a time, grouped, most calls first. An unknown
// grouping field is an error.
func (e *Executions) Usage(ctx context.Context, since time.Time, by ...string) ([]Usage, error) {
	q, args, err := UsageStatement(since, by...)
	if err != nil {
		return nil, err
	}
	groups := make(map[string]*usageGroup)
	err = e.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		clear(groups)
		rows, err := tx.Query(ctx, q, args...)
		if err != nil {
			return fmt.Errorf("read the execution log: %w", err)
		}
		defer rows.Close()
		values := make([]string, len(by))
		var class string
		var us, in, out, saved int64
		into := make([]any, 0, len(by)+5)
		for i := range values {
			into = append(into, &values[i])
		}
		into = append(into, &class, &us, &in, &out, &saved)
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return fmt.Errorf("read the execution log: %w", err)
			}
			key := strings.Join(values, "\x00")
			g := groups[key]
			if g == nil {
				g = &usageGroup{Usage: Usage{Group: slices.Clone(values), Errors: make(map[string]int64)}}
				groups[key] = g
			}
			g.add(class, us, in, out)
			g.BytesSaved += saved
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	all := make([]Usage, 0, len(groups))
	for _, g := range groups {
		all = append(all, g.usage())
	}
	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), slices.Compare(a.Group, b.Group))
	})
	return all[:min(len(all), maxUsageGroups)], nil
}

type usageGroup struct {
	Usage
	took []int64
}

func (g *usageGroup) add(class string, us, in, out int64) {
	g.Calls++
	if class != "" {
		g.Failures++
		g.Errors[class]++
	}
	g.BytesIn += in
	g.BytesOut += out
	g.took = append(g.took, us)
}

func (g *usageGroup) usage() Usage {
	g.P50, g.P95 = quantile(g.took, 0.5), quantile(g.took, 0.95)
	return g.Usage
}
