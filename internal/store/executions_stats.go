package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

const (
	// maxStatsRows bounds the executions that one look at statistics reads; the latest
	// count.
	maxStatsRows = 50_000
	// maxStatsTools bounds the tools of a result; those with the most calls are in it.
	maxStatsTools = 200
)

// ToolStats summarises the executions of one tool.
type ToolStats struct {
	Tool            string // as exposed
	Calls, Failures int64
	Median, P95     time.Duration // of all calls
	LastError       string        // class of the latest failure; empty for none
	LastErrorAt     time.Time
}

// PrincipalHash is what stands for a principal, as the gate encodes it, in the log of
// executions.
func PrincipalHash(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return hex.EncodeToString(sum[:16])
}

// StatsOf returns the statistics of the tools that a principal has called since a time,
// most calls first.
func (e *Executions) StatsOf(ctx context.Context, principal string, since time.Time) ([]ToolStats, error) {
	return e.stats(ctx, "principal", PrincipalHash(principal), since)
}

// StatsOfTenant returns the statistics of the tools that the principals of a tenant have
// called since a time, most calls first.
func (e *Executions) StatsOfTenant(ctx context.Context, tenant string, since time.Time) ([]ToolStats, error) {
	return e.stats(ctx, "tenant", writable(tenant), since)
}

// stats reads the executions with a value in a column.
func (e *Executions) stats(ctx context.Context, column, value string, since time.Time) ([]ToolStats, error) {
	type group struct {
		ToolStats
		took []int64
	}
	groups := make(map[string]*group)
	q := `SELECT tool, error_class, duration_us, at FROM tool_execution_log WHERE ` + column + ` = ? AND at >= ? ORDER BY at DESC, id DESC LIMIT ?`
	err := e.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		clear(groups)
		rows, err := tx.Query(ctx, q, value, since.UnixMilli(), maxStatsRows)
		if err != nil {
			return fmt.Errorf("read the execution log: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var tool, class string
			var us, at int64
			if err := rows.Scan(&tool, &class, &us, &at); err != nil {
				return fmt.Errorf("read the execution log: %w", err)
			}
			g := groups[tool]
			if g == nil {
				g = &group{ToolStats: ToolStats{Tool: tool}}
				groups[tool] = g
			}
			g.Calls++
			g.took = append(g.took, us)
			if class == "" {
				continue
			}
			if g.Failures++; g.LastError == "" { // the latest comes first
				g.LastError, g.LastErrorAt = class, time.UnixMilli(at).UTC()
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	all := make([]ToolStats, 0, len(groups))
	for _, g := range groups {
		g.Median, g.P95 = quantile(g.took, 0.5), quantile(g.took, 0.95)
		all = append(all, g.ToolStats)
	}
	slices.SortFunc(all, func(a, b ToolStats) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tool, b.Tool)) })
	return all[:min(len(all), maxStatsTools)], nil
}

// quantile returns a quantile of times in microseconds. It sorts them.
func quantile(us []int64, share float64) time.Duration {
	slices.Sort(us)
	return time.Duration(us[int(share*float64(len(us)-1))]) * time.Microsecond
}
