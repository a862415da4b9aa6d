package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/store"
)

// Save saves steps of a run that its holder works on: new ones, and the ends of those that
// have begun, which need no Asked. All of them are saved or none. A step that has ended
// stays as it is.
// cancelled tells that somebody has asked to cancel the run. The error is [ErrLost] for
// everybody but the holder.
func (r *Runs) Save(ctx context.Context, id, holder string, steps ...Step) (cancelled bool, err error) {
	grown := 0
	for i := range steps {
		s := &steps[i]
		size := len(s.Asked) + len(s.Answer)
		switch {
		case size > MaxStep:
			return false, fmt.Errorf("save a step of %d bytes: %w", size, ErrTooLarge)
		case !isText(s.Name) || !isText(s.CallID) || len(s.Name) > maxName || len(s.CallID) > maxName:
			return false, fmt.Errorf("save a step: %.64q, %.64q: its names are not text of at most %d bytes", s.Name, s.CallID, maxName)
		}
		grown += size
	}
	err = r.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Exec(ctx, `UPDATE runs SET size = size + ? WHERE id = ? AND holder = ? AND state = 'running'`, grown, id, holder)
		switch {
		case err != nil:
			return fmt.Errorf("save steps of a run: %w", err)
		case n == 0:
			return ErrLost
		}
		var size, cancel int64
		if err := tx.QueryRow(ctx, `SELECT size, cancel FROM runs WHERE id = ?`, id).Scan(&size, &cancel); err != nil {
			return fmt.Errorf("save steps of a run: %w", err)
		}
		if size > MaxSize {
			return fmt.Errorf("all steps have %d bytes: %w", size, ErrTooLarge)
		}
		cancelled = cancel != 0
		const save = `INSERT INTO run_steps (run, seq, kind, turn, name, state, call_id, input, output, cost, begun_at, ended_at, asked, answer)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (run, seq) DO UPDATE SET state = excluded.state, call_id = excluded.call_id, input = excluded.input, output = excluded.output,
				cost = excluded.cost, ended_at = excluded.ended_at, answer = excluded.answer
			WHERE run_steps.state = 'begun'`
		for i := range steps {
			s := &steps[i]
			if _, err := tx.Exec(ctx, save, id, s.Seq, string(s.Kind), s.Turn, s.Name, string(s.State), s.CallID, s.Input, s.Output, s.Cost,
				nanos(s.BegunAt), nanos(s.EndedAt), nonNil(s.Asked), nonNil(s.Answer)); err != nil {
				return fmt.Errorf("save a step of a run: %w", err)
			}
		}
		return nil
	})
	return cancelled && err == nil, err
}

// Finish ends the work of a holder on a run, in a state that is not [Running], with what
// came of it. Where somebody has asked to cancel it, it does not stay open. The error is
// [ErrLost] for everybody but the holder.
func (r *Runs) Finish(ctx context.Context, id, holder string, state State, result []byte) error {
	switch {
	case state == Running || !slices.Contains(States, state):
		return fmt.Errorf("finish a run: %q is no end", state)
	case len(result) > MaxResult:
		return fmt.Errorf("finish a run: a result of %d bytes: %w", len(result), ErrTooLarge)
	}
	return r.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		cancelled := state
		if state == Waiting || state == Interrupted || state == Limit {
			cancelled = Cancelled
		}
		const q = `UPDATE runs SET state = CASE WHEN cancel = 1 THEN ? ELSE ? END, result = ?, holder = '', lease = 0, changed_at = ?
			WHERE id = ? AND holder = ? AND state = 'running'`
		n, err := tx.Exec(ctx, q, string(cancelled), string(state), nonNil(result), time.Now().UnixNano(), id, holder)
		switch {
		case err != nil:
			return fmt.Errorf("finish a run: %w", err)
		case n == 0:
			return ErrLost
		}
		return nil
	})
}

// Release gives up the claim on a run, which another gateway may take over at once. One that
// somebody has asked to cancel ends.
func (r *Runs) Release(ctx context.Context, id, holder string) error {
	return r.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.Lock(ctx, Topic); err != nil {
			return err
		}
		now := time.Now()
		const q = `UPDATE runs SET holder = '', lease = ?, state = CASE WHEN cancel = 1 THEN 'cancelled' ELSE state END,
			changed_at = CASE WHEN cancel = 1 THEN ? ELSE changed_at END WHERE id = ? AND holder = ? AND state = 'running'`
		n, err := tx.Exec(ctx, q, now.Add(-clocks).UnixNano(), now.UnixNano(), id, holder)
		if err != nil {
			return fmt.Errorf("release a run: %w", err)
		}
		if n > 0 {
			tx.Bump(Topic)
		}
		return nil
	})
}

// Renew extends the leases of some runs of a holder, and returns the ids of those that
// somebody has asked to cancel.
func (r *Runs) Renew(ctx context.Context, holder string, lease time.Time, ids []string) (cancelled []string, err error) {
	err = r.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		cancelled = nil
		for some := range slices.Chunk(ids, idsAtOnce) {
			args := []any{nanos(lease), holder}
			for _, id := range some {
				args = append(args, id)
			}
			if _, err := tx.Exec(ctx, `UPDATE runs SET lease = ? WHERE holder = ? AND state = 'running' AND id IN `+places(len(some)), args...); err != nil {
				return fmt.Errorf("renew the leases of runs: %w", err)
			}
		}
		list, err := readHeads(ctx, tx, `SELECT `+heads+` FROM runs WHERE holder = ? AND state = 'running' AND cancel = 1`, holder)
		for i := range list {
			cancelled = append(cancelled, list[i].ID)
		}
		return err
	})
	return cancelled, err
}

const (
	// idsAtOnce is how many ids one statement names.
	idsAtOnce = 500
	// maxOwn is how many runs a holder works on at most while it claims others.
	maxOwn = 10_000
	// clocks is by how much the clocks of gateways may differ, and longer than a holder needs
	// to begin with a run.
	clocks = time.Minute
)

// AgentTime is how long a run that nobody works on waits for a gateway that has its agent.
const AgentTime = 10 * time.Minute

// places are those of n values in a list of SQL.
func places(n int) string { return "(" + strings.TrimSuffix(strings.Repeat("?, ", n), ", ") + ")" }

// Claim gives a holder a running run whose lease has ended, until lease: one of some agents,
// or one that has waited for [AgentTime] for a gateway that has its agent. Those whose owner
// has to be there become [Interrupted] instead, or [Cancelled] where somebody has asked for it. The runs of but, which the holder works on
// itself, are left alone, and so is for a minute what it has got otherwise: a slow store must
// not give it the same run twice. ok is false when there is none.
func (r *Runs) Claim(ctx context.Context, holder string, lease time.Time, agents []string, but ...string) (run Run, ok bool, err error) {
	if err := checkHolder(holder); err != nil {
		return Run{}, false, fmt.Errorf("claim a run: %w", err)
	}
	err = r.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		ok = false
		if err := tx.Lock(ctx, Topic); err != nil {
			return err
		}
		now := time.Now().UnixNano()
		// The holder may not have begun with what it has just got.
		others, own := ` AND (holder <> ? OR lease < ?)`, []any{holder, now - clocks.Nanoseconds()}
		for _, id := range but[:min(len(but), maxOwn)] {
			own = append(own, id)
		}
		if n := len(own) - 2; n > 0 {
			others += ` AND id NOT IN ` + places(n)
		}
		const absent = `UPDATE runs SET state = CASE WHEN cancel = 1 THEN 'cancelled' ELSE 'interrupted' END, holder = '', lease = 0, changed_at = ? WHERE state = 'running' AND lease < ? AND lasting = 0`
		if _, err := tx.Exec(ctx, absent+others, append([]any{now, now}, own...)...); err != nil {
			return fmt.Errorf("interrupt runs: %w", err)
		}
		waited := ` AND lease < ?`
		args := append([]any{now}, own...)
		if len(agents) > 0 {
			waited = ` AND (agent IN ` + places(len(agents)) + ` OR lease < ?)`
			for _, agent := range agents {
				args = append(args, agent)
			}
		}
		args = append(args, now-AgentTime.Nanoseconds())
		list, err := read(ctx, tx, `SELECT `+columns+` FROM runs WHERE state = 'running' AND lease < ?`+others+waited+` ORDER BY created_at, id LIMIT 1`, args...)
		if err != nil || len(list) == 0 {
			return err
		}
		run, ok, err = take(ctx, tx, list[0], holder, lease)
		return err
	})
	return run, ok && err == nil, err
}

// Take gives a holder a run of an owner that is in one of some states, until lease. A run
// that runs can be taken where its lease has ended. ok is false when there is none.
func (r *Runs) Take(ctx context.Context, owner, id, holder string, lease time.Time, in ...State) (run Run, ok bool, err error) {
	if err := checkHolder(holder); err != nil {
		return Run{}, false, fmt.Errorf("take a run: %w", err)
	}
	if owner == "" || !isText(id) {
		return Run{}, false, nil
	}
	err = r.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		ok = false
		if err := tx.Lock(ctx, Topic); err != nil {
			return err
		}
		args := []any{id, []byte(owner), time.Now().UnixNano()}
		for _, s := range in {
			args = append(args, string(s))
		}
		q := `SELECT ` + columns + ` FROM runs WHERE id = ? AND principal = ? AND (state <> 'running' OR lease < ?) AND state IN (` + strings.TrimSuffix(strings.Repeat("?, ", len(in)), ", ") + `)`
		list, err := read(ctx, tx, q, args...)
		if err != nil || len(list) == 0 {
			return err
		}
		run, ok, err = take(ctx, tx, list[0], holder, lease)
		return err
	})
	return run, ok && err == nil, err
}

// take gives a run to a holder.
func take(ctx context.Context, tx *store.Tx, run Run, holder string, lease time.Time) (Run, bool, error) {
	n, err := tx.Exec(ctx, `UPDATE runs SET state = 'running', holder = ?, lease = ? WHERE id = ?`, holder, nanos(lease), run.ID)
	if err != nil {
		return Run{}, false, fmt.Errorf("claim a run: %w", err)
	}
	run.State = Running
	return run, n > 0, nil
}

// Cancel cancels a run; of an owner alone where it is not empty. One that a gateway works
// on ends soon. ok is false when there is none that could end.
func (r *Runs) Cancel(ctx context.Context, owner, id string) (ok bool, err error) {
	if !isText(id) {
		return false, nil
	}
	err = r.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		ok = false
		if err := tx.Lock(ctx, Topic); err != nil {
			return err
		}
		where, args := ` WHERE id = ?`, []any{id}
		if owner != "" {
			where, args = where+` AND principal = ?`, append(args, []byte(owner))
		}
		asked, err := tx.Exec(ctx, `UPDATE runs SET cancel = 1`+where+` AND state = 'running'`, args...)
		if err != nil {
			return fmt.Errorf("cancel a run: %w", err)
		}
		ended, err := tx.Exec(ctx, `UPDATE runs SET state = 'cancelled', cancel = 1, changed_at = ?`+where+` AND state IN ('waiting', 'interrupted', 'limit')`,
			append([]any{time.Now().UnixNano()}, args...)...)
		if err != nil {
			return fmt.Errorf("cancel a run: %w", err)
		}
		if ok = asked+ended > 0; ok {
			tx.Bump(Topic)
		}
		return nil
	})
	return ok && err == nil, err
}
