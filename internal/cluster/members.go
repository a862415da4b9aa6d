package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/store"
)

const (
	// Topic is raised in the store when a member joins, drains or leaves.
	Topic = "members"
	// TopicLists is raised when the lists of a member have changed.
	TopicLists = "lists"
	// TopicOffers is raised when a member runs servers for the others that it did not run
	// before.
	TopicOffers = "offers"
	// TopicBreaker, with the key of a server behind it, is raised when a member has stopped
	// calling it.
	TopicBreaker = "breaker/"
)

// Announce raises a topic. It does not wait for the database.
func Announce(s *store.Store, topic string) error {
	return s.Enqueue(func(_ context.Context, tx *store.Tx) error {
		tx.Bump(topic)
		return nil
	})
}

// Members stores the gateways that share a database. It needs PostgreSQL, whose clock its
// leases go by: the clocks of gateways may differ by minutes. It is safe for concurrent use.
type Members struct{ s *store.Store }

// NewMembers returns the handle for members in a store.
func NewMembers(s *store.Store) *Members { return &Members{s} }

// now is the time of the database in milliseconds since 1970.
const now = `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)`

// Renew adds a member or extends its lease, and reports whether it was not there, or its lease
// had ended. What others decide by is announced when it changes.
func (ms *Members) Renew(ctx context.Context, m Member, lease time.Duration) (gone bool, err error) {
	err = ms.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		draining := 0
		if m.Draining {
			draining = 1
		}
		n, err := tx.Exec(ctx, `UPDATE members SET sessions = ?, calls = ?, runs = ?, jobs = ?, lease = `+now+` + ? WHERE id = ? AND address = ? AND draining = ? AND lease >= `+now,
			m.Sessions, m.Calls, m.Runs, m.Jobs, lease.Milliseconds(), m.ID, m.Address, draining)
		if err != nil {
			return fmt.Errorf("renew the lease of this gateway: %w", err)
		}
		if n > 0 {
			return nil
		}
		err = tx.QueryRow(ctx, `SELECT lease < `+now+` FROM members WHERE id = ?`, m.ID).Scan(&gone)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			gone = true
		case err != nil:
			return fmt.Errorf("renew the lease of this gateway: %w", err)
		}
		const add = `INSERT INTO members (id, address, version, wire, draining, sessions, calls, runs, jobs, started_at, lease) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ` + now + ` + ?)
			ON CONFLICT (id) DO UPDATE SET address = excluded.address, draining = excluded.draining, sessions = excluded.sessions, calls = excluded.calls, runs = excluded.runs, jobs = excluded.jobs, lease = excluded.lease`
		if _, err := tx.Exec(ctx, add, m.ID, m.Address, m.Version, m.Wire, draining, m.Sessions, m.Calls, m.Runs, m.Jobs, m.Started.UnixMilli(), lease.Milliseconds()); err != nil {
			return fmt.Errorf("join the gateways of this database: %w", err)
		}
		// One that was reached at this address before is gone: this one listens there.
		if _, err := tx.Exec(ctx, `DELETE FROM members WHERE address = ? AND id <> ?`, m.Address, m.ID); err != nil {
			return fmt.Errorf("remove the gateway that had this address: %w", err)
		}
		tx.Bump(Topic)
		return sweep(ctx, tx)
	})
	return gone && err == nil, err
}

// sweep removes members whose lease ended a day ago.
func sweep(ctx context.Context, tx *store.Tx) error {
	if _, err := tx.Exec(ctx, `DELETE FROM members WHERE lease < `+now+` - 86400000`); err != nil {
		return fmt.Errorf("remove gateways that are gone: %w", err)
	}
	return nil
}

// Leave removes a member.
func (ms *Members) Leave(ctx context.Context, id string) error {
	return ms.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Exec(ctx, `DELETE FROM members WHERE id = ?`, id)
		if err != nil {
			return fmt.Errorf("leave the gateways of this database: %w", err)
		}
		if n > 0 {
			tx.Bump(Topic)
		}
		return nil
	})
}

// List returns the members whose lease has not ended, by id.
func (ms *Members) List(ctx context.Context) ([]Member, error) {
	var out []Member
	err := ms.s.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, address, version, wire, draining, sessions, calls, runs, jobs, started_at FROM members WHERE lease >= `+now+` ORDER BY id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m Member
			var draining, started int64
			if err := rows.Scan(&m.ID, &m.Address, &m.Version, &m.Wire, &draining, &m.Sessions, &m.Calls, &m.Runs, &m.Jobs, &started); err != nil {
				return err
			}
			m.Draining, m.Started = draining != 0, time.UnixMilli(started).UTC()
			out = append(out, m)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list the gateways of this database: %w", err)
	}
	return out, nil
}
