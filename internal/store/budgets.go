package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Budgets stores the usage of budgets. Its caller decides what is allowed, except where
// several processes share the database: there one statement decides ([Budgets.Apply]).
// The zero value returns [ErrClosed]; methods are safe for concurrent use.
type Budgets struct {
	s *Store
}

// Budgets returns the handle for budgets.
func (s *Store) Budgets() *Budgets { return &Budgets{s} }

// Shared reports whether several processes may use the database, so that the database
// must decide.
func (b *Budgets) Shared() bool { return b.s != nil && b.s.direct != nil }

// Durable reports whether committed writes survive a loss of power.
func (b *Budgets) Durable() bool { return b.s != nil && b.s.durable }

// BudgetCounter identifies a counter. Owner is stored byte for byte.
type BudgetCounter struct {
	Budget, Measure, Owner string
}

// BudgetWindow is the usage of a counter in one window. Times are milliseconds since
// 1970, UTC.
type BudgetWindow struct {
	BudgetCounter
	Start, End int64
	Used       int64
}

// BudgetBill is the charge for one round of one call.
type BudgetBill struct {
	Call    string
	Round   int
	Expires int64   // milliseconds since 1970, UTC
	Taken   []int64 // at least one
	Settled bool
}

// BudgetTx accesses all budgets inside one [Budgets.Do]; see [Tx].
type BudgetTx struct {
	ctx context.Context
	tx  *Tx
}

// Do runs fn like [Store.Do], in a store that is not [Budgets.Shared].
func (b *Budgets) Do(ctx context.Context, fn func(tx *BudgetTx) error) error {
	if b.s == nil {
		return ErrClosed
	}
	return b.s.Do(ctx, func(ctx context.Context, tx *Tx) error { return fn(&BudgetTx{unwatched(ctx), tx}) })
}

// Statements of every charge.
const (
	sqlBudgetWindows = `SELECT starts, ends, used FROM budget_window WHERE budget = ? AND measure = ? AND owner = ? AND ends > ?`
	sqlSetBudget     = `INSERT INTO budget_window (budget, measure, owner, starts, ends, used) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (budget, measure, owner, starts, ends) DO UPDATE SET used = excluded.used`
	sqlBudgetBill = `SELECT expires, taken, settled FROM budget_bill WHERE call = ? AND round = ?`
	sqlSettleBill = `UPDATE budget_bill SET settled = 1 WHERE call = ? AND round = ?`
)

// billRows are the numbers of bills that one statement can add, largest first.
var billRows = [...]int{16, 4, 1}

// sqlAddBills are the statements for billRows.
var sqlAddBills = func() (texts [len(billRows)]string) {
	for i, n := range billRows {
		const row = "(?, ?, ?, ?, 0)"
		texts[i] = `INSERT INTO budget_bill (call, round, expires, taken, settled) VALUES ` +
			row + strings.Repeat(", "+row, n-1) + ` ON CONFLICT DO NOTHING`
	}
	return texts
}()

var budgetStatements = append([]string{sqlBudgetWindows, sqlSetBudget, sqlBudgetBill, sqlSettleBill}, sqlAddBills[:]...)

// Windows returns the windows of a counter that end after a time.
func (t *BudgetTx) Windows(c BudgetCounter, after int64) (list []BudgetWindow, err error) {
	rows, err := t.tx.prepared(t.ctx, sqlBudgetWindows).QueryContext(t.ctx, c.Budget, c.Measure, c.Owner, after)
	if err != nil {
		return nil, fmt.Errorf("read the budget %s: %w", c.Budget, err)
	}
	defer rows.Close()
	for rows.Next() {
		w := BudgetWindow{BudgetCounter: c}
		if err := rows.Scan(&w.Start, &w.End, &w.Used); err != nil {
			return nil, fmt.Errorf("read the budget %s: %w", c.Budget, err)
		}
		list = append(list, w)
	}
	return list, rows.Err()
}

// Set stores the usage of a window.
func (t *BudgetTx) Set(w *BudgetWindow) error {
	if _, err := t.tx.prepared(t.ctx, sqlSetBudget).ExecContext(t.ctx, w.Budget, w.Measure, w.Owner, w.Start, w.End, w.Used); err != nil {
		return fmt.Errorf("write the budget %s: %w", w.Budget, err)
	}
	return nil
}

// Bill returns a bill, nil when there is none.
func (t *BudgetTx) Bill(call string, round int) (*BudgetBill, error) {
	b := BudgetBill{Call: call, Round: round}
	var taken string
	switch err := t.tx.prepared(t.ctx, sqlBudgetBill).QueryRowContext(t.ctx, call, round).Scan(&b.Expires, &taken, &b.Settled); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the charge of %s: %w", call, err)
	}
	for text := range strings.SplitSeq(taken, ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the charge of %s is not readable: %w", call, err)
		}
		b.Taken = append(b.Taken, n)
	}
	return &b, nil
}

// AddBills adds new bills. An existing bill for the same round is kept. It returns how
// many were added.
func (t *BudgetTx) AddBills(list ...BudgetBill) (added int, err error) {
	for i, n := range billRows {
		for ; len(list) >= n; list = list[n:] {
			some, err := t.addBills(sqlAddBills[i], list[:n])
			if err != nil {
				return added, err
			}
			added += some
		}
	}
	return added, nil
}

func (t *BudgetTx) addBills(text string, list []BudgetBill) (added int, err error) {
	args := make([]any, 0, 4*len(list))
	for i := range list {
		b := &list[i]
		args = append(args, b.Call, b.Round, b.Expires, amounts(b.Taken))
	}
	result, err := t.tx.prepared(t.ctx, text).ExecContext(t.ctx, args...)
	if err != nil {
		return 0, fmt.Errorf("write the charge of %s and of %d more: %w", list[0].Call, len(list)-1, err)
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// amounts joins numbers with commas, as bills store them.
func amounts(list []int64) string {
	text := make([]byte, 0, 16)
	for i, n := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return string(text)
}

// SettleBill marks a bill as settled.
func (t *BudgetTx) SettleBill(call string, round int) error {
	if _, err := t.tx.prepared(t.ctx, sqlSettleBill).ExecContext(t.ctx, call, round); err != nil {
		return fmt.Errorf("settle the charge of %s: %w", call, err)
	}
	return nil
}

// BudgetTotal is the current usage of one counter.
type BudgetTotal struct {
	BudgetCounter
	Used, Start, End int64 // the first start and the first end
}

// Totals returns the counters with usage at a time, sorted, at most limit of them.
// Empty names match all.
func (b *Budgets) Totals(ctx context.Context, at int64, budget, owner string, limit int) (list []BudgetTotal, err error) {
	if b.s == nil {
		return nil, ErrClosed
	}
	q := `SELECT budget, measure, owner, sum(used), min(starts), min(ends) FROM budget_window
		WHERE starts <= ? AND ends > ? AND used > 0`
	args := []any{at, at}
	if budget != "" {
		q, args = q+` AND budget = ?`, append(args, budget)
	}
	if owner != "" {
		q, args = q+` AND owner = ?`, append(args, foreign(owner))
	}
	q, args = q+` GROUP BY budget, measure, owner ORDER BY budget, measure, owner LIMIT ?`, append(args, limit)
	err = b.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.Query(ctx, q, args...)
		if err != nil {
			return fmt.Errorf("read budgets: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var t BudgetTotal
			var name []byte
			if err := rows.Scan(&t.Budget, &t.Measure, &name, &t.Used, &t.Start, &t.End); err != nil {
				return fmt.Errorf("read budgets: %w", err)
			}
			t.Owner = string(name)
			list = append(list, t)
		}
		return rows.Err()
	})
	return list, err
}

const (
	// maxApply is how often one request is tried.
	maxApply = 3
	// applyTime bounds all tries together, because calls wait for it.
	applyTime = 5 * time.Second
)

// Apply charges and settles bills in one statement, which commits by itself, in a store
// that is [Budgets.Shared]. The request and the answer are those of the schema's
// function toolgate_budget. A bill is charged and settled only once, so a request whose
// connection was lost is repeated. After 5 s without an answer it fails.
func (b *Budgets) Apply(ctx context.Context, request []byte) (answer []byte, err error) {
	switch {
	case b.s == nil || b.s.read == nil:
		return nil, ErrClosed
	case b.s.direct == nil:
		return nil, b.s.unwritten(ErrReadOnly)
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	for try := 1; ; try++ {
		err := b.s.direct.QueryRowContext(ctx, `SELECT toolgate_budget($1::jsonb)`, string(request)).Scan(&answer)
		if err == nil {
			return answer, nil
		}
		if try == maxApply || !b.s.dialect.retryable(err) || !pause(ctx, tryAgain*time.Duration(try)) {
			return nil, explain(b.s.path, "write budgets to store", err)
		}
	}
}

// pruneChunk is how many rows one write removes.
const pruneChunk = 2000

// PruneWindows removes windows that ended before a time and whose measure has a suffix,
// at most some thousands, and returns how many.
func (b *Budgets) PruneWindows(ctx context.Context, suffix string, ended int64) (n int64, err error) {
	const q = `DELETE FROM budget_window WHERE (budget, measure, owner, starts, ends) IN
		(SELECT budget, measure, owner, starts, ends FROM budget_window WHERE measure LIKE ? AND ends < ? LIMIT ?)`
	return b.prune(ctx, q, "%/"+suffix, ended, pruneChunk)
}

// PruneBills removes expired bills in the same way.
func (b *Budgets) PruneBills(ctx context.Context, expired int64) (n int64, err error) {
	const q = `DELETE FROM budget_bill WHERE (call, round) IN (SELECT call, round FROM budget_bill WHERE expires < ? LIMIT ?)`
	return b.prune(ctx, q, expired, pruneChunk)
}

func (b *Budgets) prune(ctx context.Context, q string, args ...any) (n int64, err error) {
	if b.s == nil {
		return 0, ErrClosed
	}
	err = b.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		var err error
		if n, err = tx.Exec(ctx, q, args...); err != nil {
			return fmt.Errorf("forget budgets of the past: %w", err)
		}
		return nil
	})
	return n, err
}
