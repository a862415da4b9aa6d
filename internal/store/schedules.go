package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds of schedules.
const (
	// MaxPlanned is how many calls of a principal may be planned at once.
	MaxPlanned = 32
	// MaxScheduledArguments is how large the arguments of one may be as they are stored,
	// in bytes.
	MaxScheduledArguments = 96 << 10
	// MaxScheduledResult is how much of its result is kept, in bytes.
	MaxScheduledResult = 16 << 10
	// maxSchedules is how many rows of a principal are kept; the oldest that have ended
	// go first.
	maxSchedules = 128
	// ScheduleKept is how long one is kept after its end.
	ScheduleKept = 7 * 24 * time.Hour

	schedulePrefix = "sch_"
	maxHolder      = 64
)

// The states of a schedule. All but the first two are final.
const (
	SchedulePlanned   = "planned"
	ScheduleRunning   = "running"   // claimed; the call may have been made
	ScheduleMade      = "made"      // the tool has answered
	ScheduleFailed    = "failed"    // the tool, or the way to it, has failed
	ScheduleRefused   = "refused"   // the gateway did not make the call
	ScheduleMissed    = "missed"    // no gateway ran when it was due
	ScheduleLost      = "lost"      // its gateway ended during the call; whether it was made is not known
	ScheduleCancelled = "cancelled" // by its owner
)

// Schedule is a call that is made at a time.
type Schedule struct {
	ID         string // see [NewScheduleID]; an empty one is set by the store
	Principal  string // whose call it is, as the gate encodes it
	Credential string // by which it was known; at most 512 bytes
	Capsule    string // of the endpoint; empty for none
	Tool       string // as exposed; at most 512 bytes
	Arguments  []byte // opaque; at most [MaxScheduledArguments], and empty once it has ended
	DueAt      time.Time
	ScheduleEnd

	// Set by the store.
	State              string
	CreatedAt, EndedAt time.Time
}

// ScheduleEnd is what has become of a call.
type ScheduleEnd struct {
	CallID string // of the call in the audit log; empty for none
	Result []byte // at most [MaxScheduledResult]
}

func (s *Schedule) check() error {
	if len(s.Arguments) > MaxScheduledArguments {
		return fmt.Errorf("arguments of %d bytes: %w", len(s.Arguments), ErrTooLarge)
	}
	return errors.Join(checkText("id", s.ID, maxName), checkPrincipal(s.Principal), checkText("credential", s.Credential, maxName), checkText("capsule", s.Capsule, maxName), checkName("tool", s.Tool))
}

// Schedules stores calls that are made at a time. A call is made by whoever claims its
// row, and a row is claimed once: no state leads back to [SchedulePlanned]. Every change
// that brings something to do raises the generation of [TopicSchedules]. The zero value
// returns [ErrClosed]; methods are safe for concurrent use, also by several processes.
type Schedules struct {
	s *Store
}

// NewSchedules returns the handle for schedules in a store.
func NewSchedules(s *Store) *Schedules { return &Schedules{s} }

// NewScheduleID returns an id that no schedule has: "sch_" and 26 characters of lower-case
// base32.
func NewScheduleID() string { return schedulePrefix + strings.ToLower(rand.Text()) }

// Add plans a call and returns it with its id. It returns [ErrTooMany] when the
// principal has [MaxPlanned] calls planned.
func (c *Schedules) Add(ctx context.Context, s Schedule) (Schedule, error) {
	if c.s == nil {
		return Schedule{}, ErrClosed
	}
	if err := s.check(); err != nil {
		return Schedule{}, fmt.Errorf("plan a call: %w", err)
	}
	if s.ID == "" {
		s.ID = NewScheduleID()
	}
	err := c.s.change(ctx, TopicSchedules, func(ctx context.Context, tx *Tx) (bool, error) {
		now := time.Now()
		s.State, s.CreatedAt, s.EndedAt, s.ScheduleEnd = SchedulePlanned, now.UTC(), time.Time{}, ScheduleEnd{}
		if err := forgetSchedules(ctx, tx, s.Principal, now); err != nil {
			return false, err
		}
		var planned int
		const count = `SELECT count(*) FROM schedules WHERE principal = ? AND state = 'planned'`
		if err := tx.QueryRow(ctx, count, foreign(s.Principal)).Scan(&planned); err != nil {
			return false, fmt.Errorf("count planned calls: %w", err)
		}
		if planned >= MaxPlanned {
			return false, fmt.Errorf("plan a call: the principal has %d planned: %w", planned, ErrTooMany)
		}
		const add = `INSERT INTO schedules (id, principal, credential, capsule, tool, arguments, state, due_at, created_at, holder, lease, ended_at, call_id, result)
			VALUES (?, ?, ?, ?, ?, ?, 'planned', ?, ?, '', 0, 0, '', ?)`
		_, err := tx.Exec(ctx, add, s.ID, foreign(s.Principal), s.Credential, s.Capsule, s.Tool, nonNil(s.Arguments), nanos(s.DueAt), nanos(s.CreatedAt), []byte{})
		return true, wrapped("plan a call", err)
	})
	if err != nil {
		return Schedule{}, err
	}
	return s, nil
}

// forgetSchedules removes what has ended long ago, and the oldest rows of a principal
// that has too many.
func forgetSchedules(ctx context.Context, tx *Tx, principal string, now time.Time) error {
	if err := pruneSchedules(ctx, tx, now); err != nil {
		return err
	}
	const excess = `DELETE FROM schedules WHERE ended_at > 0 AND id IN
		(SELECT id FROM schedules WHERE principal = ? ORDER BY created_at DESC, id LIMIT 1000000 OFFSET ?)`
	_, err := tx.Exec(ctx, excess, foreign(principal), maxSchedules-1)
	return wrapped("forget the oldest calls", err)
}

// pruneSchedules deletes what has ended long ago.
func pruneSchedules(ctx context.Context, tx *Tx, now time.Time) error {
	_, err := tx.Exec(ctx, `DELETE FROM schedules WHERE ended_at > 0 AND ended_at < ?`, nanos(now.Add(-ScheduleKept)))
	return wrapped("forget old calls", err)
}

const scheduleColumns = `id, principal, credential, capsule, tool, arguments, state, due_at, created_at, ended_at, call_id, result`

// List returns the calls of a principal, the latest first.
func (c *Schedules) List(ctx context.Context, principal string) (list []Schedule, err error) {
	if c.s == nil {
		return nil, ErrClosed
	}
	err = c.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `SELECT ` + scheduleColumns + ` FROM schedules WHERE principal = ? ORDER BY created_at DESC, id LIMIT ?`
		list, err = schedulesOf(ctx, tx, q, foreign(principal), maxSchedules)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Cancel cancels a planned call of a principal. ok is false when it has none of this id
// that is still planned.
func (c *Schedules) Cancel(ctx context.Context, principal, id string) (ok bool, err error) {
	if c.s == nil {
		return false, ErrClosed
	}
	if !isText(id) {
		return false, nil
	}
	err = c.s.change(ctx, TopicSchedules, func(ctx context.Context, tx *Tx) (bool, error) {
		const q = `UPDATE schedules SET state = 'cancelled', ended_at = ?, arguments = ? WHERE id = ? AND principal = ? AND state = 'planned'`
		n, err := tx.Exec(ctx, q, time.Now().UnixNano(), []byte{}, id, foreign(principal))
		ok = n > 0
		return ok, wrapped("cancel a call", err)
	})
	return ok && err == nil, err
}

// Next returns when the next planned call is due that belongs to none of some principals; ok
// is false when none is planned.
func (c *Schedules) Next(ctx context.Context, but ...string) (due time.Time, ok bool, err error) {
	if c.s == nil {
		return time.Time{}, false, ErrClosed
	}
	err = c.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		var n int64
		where, args := without(but)
		q := `SELECT due_at FROM schedules WHERE state = 'planned'` + where + ` ORDER BY due_at LIMIT 1`
		n, ok, err = found(n, tx.QueryRow(ctx, q, args...).Scan(&n))
		due = instant(n)
		return err
	})
	return due, ok && err == nil, err
}

// without is the condition that a call belongs to none of some principals.
func without(principals []string) (where string, args []any) {
	for _, p := range principals {
		where, args = where+" AND principal <> ?", append(args, foreign(p))
	}
	return where, args
}

// Claim gives a holder the first planned call that is due and belongs to none of some
// principals, until lease. Nobody else gets it any more, whatever becomes of the holder: the claim is committed when Claim returns.
// Calls that were due before missed are ended as missed instead. ok is false when nothing
// is due.
func (c *Schedules) Claim(ctx context.Context, holder string, missed, lease time.Time, but ...string) (s Schedule, ok bool, err error) {
	if c.s == nil {
		return Schedule{}, false, ErrClosed
	}
	if holder == "" || len(holder) > maxHolder || !isText(holder) {
		return Schedule{}, false, fmt.Errorf("claim a call: %q is no holder", holder)
	}
	err = c.s.change(ctx, TopicSchedules, func(ctx context.Context, tx *Tx) (bool, error) {
		now := time.Now().UnixNano()
		const late = `UPDATE schedules SET state = 'missed', ended_at = ?, arguments = ? WHERE state = 'planned' AND due_at < ?`
		if _, err := tx.Exec(ctx, late, now, []byte{}, nanos(missed)); err != nil {
			return false, fmt.Errorf("end missed calls: %w", err)
		}
		where, args := without(but)
		q := `SELECT ` + scheduleColumns + ` FROM schedules WHERE state = 'planned' AND due_at <= ?` + where + ` ORDER BY due_at, id LIMIT 1`
		list, err := schedulesOf(ctx, tx, q, append([]any{now}, args...)...)
		if ok = len(list) > 0; err != nil || !ok {
			return false, err
		}
		s = list[0]
		s.State = ScheduleRunning
		const claim = `UPDATE schedules SET state = 'running', holder = ?, lease = ? WHERE id = ? AND state = 'planned'`
		n, err := tx.Exec(ctx, claim, holder, nanos(lease), s.ID)
		ok = n > 0
		return false, wrapped("claim a call", err)
	})
	return s, ok && err == nil, err
}

// Renew extends the lease of a claimed call that still runs.
func (c *Schedules) Renew(ctx context.Context, id, holder string, lease time.Time) error {
	if c.s == nil {
		return ErrClosed
	}
	return c.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		_, err := tx.Exec(ctx, `UPDATE schedules SET lease = ? WHERE id = ? AND holder = ? AND state = 'running'`, nanos(lease), id, holder)
		return wrapped("renew the lease of a call", err)
	})
}

// Finish records what has become of a claimed call: [ScheduleMade], [ScheduleFailed] or
// [ScheduleRefused]. The holder of the claim alone can do so, also after its lease has
// ended. ok is false for everybody else, and the second time.
func (c *Schedules) Finish(ctx context.Context, id, holder, state string, end ScheduleEnd) (ok bool, err error) {
	if c.s == nil {
		return false, ErrClosed
	}
	if state != ScheduleMade && state != ScheduleFailed && state != ScheduleRefused {
		return false, fmt.Errorf("finish a call: %q is no end", state)
	}
	if len(end.Result) > MaxScheduledResult {
		return false, fmt.Errorf("finish a call: a result of %d bytes: %w", len(end.Result), ErrTooLarge)
	}
	err = c.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `UPDATE schedules SET state = ?, ended_at = ?, call_id = ?, result = ?, arguments = ? WHERE id = ? AND holder = ? AND state IN ('running', 'lost')`
		n, err := tx.Exec(ctx, q, state, time.Now().UnixNano(), writable(end.CallID), nonNil(end.Result), []byte{}, id, holder)
		ok = n > 0
		return wrapped("finish a call", err)
	})
	return ok && err == nil, err
}

// Lose ends claimed calls whose lease has ended: their gateway is gone, and nobody knows
// how far it came. It returns how many there were.
func (c *Schedules) Lose(ctx context.Context) (lost int64, err error) {
	if c.s == nil {
		return 0, ErrClosed
	}
	err = c.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		now := time.Now().UnixNano()
		lost, err = tx.Exec(ctx, `UPDATE schedules SET state = 'lost', ended_at = ?, arguments = ? WHERE state = 'running' AND lease < ?`, now, []byte{}, now)
		return wrapped("end lost calls", err)
	})
	return lost, err
}

func schedulesOf(ctx context.Context, tx *Tx, q string, args ...any) (list []Schedule, err error) {
	rows, err := tx.Query(ctx, q, args...)
	if err != nil {
		return nil, fmt.Errorf("read planned calls: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var s Schedule
		var principal []byte
		var due, created, ended int64
		if err := rows.Scan(&s.ID, &principal, &s.Credential, &s.Capsule, &s.Tool, &s.Arguments, &s.State, &due, &created, &ended, &s.CallID, &s.Result); err != nil {
			return nil, fmt.Errorf("read a planned call: %w", err)
		}
		s.Principal, s.DueAt, s.CreatedAt, s.EndedAt = string(principal), instant(due), instant(created), instant(ended)
		list = append(list, s)
	}
	return list, rows.Err()
}
