package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxModes bounds the history of operating modes.
const maxModes = 1000

// ModeRecord is an operating mode that was set.
type ModeRecord struct {
	Mode string
	Change
	At time.Time // set by the store
}

// Modes stores the operating mode and the last 1,000 before it. The caller decides
// which modes exist. Every change raises the generation of [TopicMode]. The zero value
// returns [ErrClosed]; methods are safe for concurrent use, also by several processes.
type Modes struct {
	s *Store
}

// Modes returns the handle for the operating mode.
func (s *Store) Modes() *Modes { return &Modes{s} }

// Set puts mode in force.
func (m *Modes) Set(ctx context.Context, mode string, by Change) error {
	_, err := m.set(ctx, nil, mode, by)
	return err
}

// SetIf puts mode in force if the current mode is from, empty for none, and reports
// whether it did. So an automatic change does not override a person's.
func (m *Modes) SetIf(ctx context.Context, from, mode string, by Change) (ok bool, err error) {
	return m.set(ctx, &from, mode, by)
}

func (m *Modes) set(ctx context.Context, from *string, mode string, by Change) (ok bool, err error) {
	if m.s == nil {
		return false, ErrClosed
	}
	if err := errors.Join(checkName("mode", mode), by.check()); err != nil {
		return false, fmt.Errorf("set operating mode: %w", err)
	}
	err = m.s.change(ctx, TopicMode, func(ctx context.Context, tx *Tx) (bool, error) {
		ok = false
		if from != nil {
			now, _, err := currentMode(ctx, tx)
			if err != nil || now.Mode != *from {
				return false, err
			}
		}
		const add = `INSERT INTO operating_mode (mode, actor, reason, at) VALUES (?, ?, ?, ?)`
		if _, err := tx.Exec(ctx, add, mode, by.Actor, by.Reason, time.Now().UnixNano()); err != nil {
			return false, fmt.Errorf("set operating mode %s: %w", mode, err)
		}
		const trim = `DELETE FROM operating_mode WHERE seq <= (SELECT seq FROM operating_mode ORDER BY seq DESC LIMIT 1 OFFSET ?)`
		if _, err := tx.Exec(ctx, trim, maxModes); err != nil {
			return false, fmt.Errorf("forget old operating modes: %w", err)
		}
		ok = true
		return true, nil
	})
	return ok && err == nil, err
}

// Current returns the mode in force; ok is false when none was ever set.
func (m *Modes) Current(ctx context.Context) (mode ModeRecord, ok bool, err error) {
	if m.s == nil {
		return ModeRecord{}, false, ErrClosed
	}
	err = m.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		mode, ok, err = currentMode(ctx, tx)
		return err
	})
	return mode, ok, err
}

// History returns the latest modes, at most limit and 1,000, the current one first.
func (m *Modes) History(ctx context.Context, limit int) (modes []ModeRecord, err error) {
	if m.s == nil {
		return nil, ErrClosed
	}
	err = m.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.Query(ctx, `SELECT mode, actor, reason, at FROM operating_mode ORDER BY seq DESC LIMIT ?`, min(max(limit, 0), maxModes))
		if err != nil {
			return fmt.Errorf("read operating modes: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanMode(rows)
			if err != nil {
				return err
			}
			modes = append(modes, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return modes, nil
}

func currentMode(ctx context.Context, tx *Tx) (ModeRecord, bool, error) {
	return found(scanMode(tx.QueryRow(ctx, `SELECT mode, actor, reason, at FROM operating_mode ORDER BY seq DESC LIMIT 1`)))
}

// scanner is a row or the rows of a query.
type scanner interface {
	Scan(into ...any) error
}

func scanMode(row scanner) (ModeRecord, error) {
	var r ModeRecord
	var at int64
	if err := row.Scan(&r.Mode, &r.Actor, &r.Reason, &at); err != nil {
		return ModeRecord{}, fmt.Errorf("read operating mode: %w", err)
	}
	r.At = instant(at)
	return r, nil
}
