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

// ExecutionQuery selects executions; an empty field selects all.
type ExecutionQuery struct {
	Server, Tool, Tenant string
	// Class is an error class. "any" is every failure, "none" every success.
	Class     string
	Since     time.Time
	Principal string // as the gate encodes it
	// BeforeAt and BeforeRow are those of the last execution of the page before.
	BeforeAt  time.Time
	BeforeRow int64
	Limit     int
}

// FoundExecution is an execution with its place in the log. It has no principal and no
// session.
type FoundExecution struct {
	Row int64
	Execution
}

// where returns the condition of a query and its arguments.
func (q *ExecutionQuery) where() (string, []any) {
	text, args := "at >= ?", []any{max(0, q.Since.UnixMilli())}
	and := func(condition string, values ...any) {
		text += " AND " + condition
		args = append(args, values...)
	}
	for _, c := range [...]struct{ column, value string }{{"server", q.Server}, {"tool", q.Tool}, {"tenant", q.Tenant}} {
		if c.value != "" {
			and(c.column+" = ?", writable(c.value))
		}
	}
	if q.Principal != "" {
		and("principal = ?", PrincipalHash(q.Principal))
	}
	switch q.Class {
	case "":
	case "any":
		and("error_class <> ''")
	case "none":
		and("error_class = ''")
	default:
		and("error_class = ?", writable(q.Class))
	}
	if q.BeforeRow > 0 {
		at := q.BeforeAt.UnixMilli()
		and("at <= ? AND (at < ? OR id < ?)", at, at, q.BeforeRow)
	}
	return text, args
}

// Statement returns the statement of [Executions.Find] with its arguments.
func (q *ExecutionQuery) Statement() (text string, args []any) {
	where, args := q.where()
	return `SELECT id, at, call_id, server, tool, tenant, persona_id, error_class, duration_us, upstream_us, request_size, response_size
		FROM tool_execution_log WHERE ` + where + ` ORDER BY at DESC, id DESC LIMIT ?`, append(args, q.Limit)
}

// Find returns the executions that match a query, the latest first.
func (e *Executions) Find(ctx context.Context, q *ExecutionQuery) ([]FoundExecution, error) {
	text, args := q.Statement()
	var out []FoundExecution
	err := e.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		out = []FoundExecution{}
		rows, err := tx.Query(ctx, text, args...)
		if err != nil {
			return fmt.Errorf("search the execution log: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var x FoundExecution
			var at, took, upstream int64
			if err := rows.Scan(&x.Row, &at, &x.CallID, &x.Server, &x.Tool, &x.Tenant, &x.Persona, &x.ErrorClass, &took, &upstream, &x.RequestSize, &x.ResponseSize); err != nil {
				return fmt.Errorf("search the execution log: %w", err)
			}
			x.At, x.Duration, x.Upstream = time.UnixMilli(at).UTC(), time.Duration(took)*time.Microsecond, time.Duration(upstream)*time.Microsecond
			x.Success = x.ErrorClass == ""
			out = append(out, x)
		}
		return rows.Err()
	})
	return out, err
}

// ExecutionCount are the executions of one stretch of time.
type ExecutionCount struct {
	At              time.Time // its beginning
	Calls, Failures int64
}

// maxCounts bounds the stretches of time of one answer; the latest count.
const maxCounts = 1_500

// CountStatement returns the statement of [Executions.CountOver] with its arguments.
func CountStatement(since time.Time, step time.Duration) (text string, args []any) {
	ms := max(1, step.Milliseconds())
	since = time.UnixMilli(max(since.UnixMilli(), time.Now().UnixMilli()-maxCounts*ms))
	return `SELECT at / ?, COUNT(*), COUNT(CASE WHEN error_class <> '' THEN 1 END) FROM tool_execution_log
		WHERE at >= ? GROUP BY 1 ORDER BY 1`, []any{ms, since.UnixMilli()}
}

// CountOver returns how many executions there were since a time, in steps of one length.
// Steps without any are left out.
func (e *Executions) CountOver(ctx context.Context, since time.Time, step time.Duration) ([]ExecutionCount, error) {
	q, args := CountStatement(since, step)
	ms := max(1, step.Milliseconds())
	var out []ExecutionCount
	err := e.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		out = []ExecutionCount{}
		rows, err := tx.Query(ctx, q, args...)
		if err != nil {
			return fmt.Errorf("count executions: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var c ExecutionCount
			var n int64
			if err := rows.Scan(&n, &c.Calls, &c.Failures); err != nil {
				return fmt.Errorf("count executions: %w", err)
			}
			c.At = time.UnixMilli(n * ms).UTC()
			out = append(out, c)
		}
		return rows.Err()
	})
	return out, err
}
