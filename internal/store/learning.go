package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds of what is learned.
const (
	// MaxSearchQuery is how much of a query is kept, in bytes.
	MaxSearchQuery = 512
	// MaxSearchPairs is how many pairs of a tenant are kept; the oldest go first.
	MaxSearchPairs = 100_000
	// MaxSearchPairsOfCaller is how many of them are of one caller and one tool.
	MaxSearchPairsOfCaller = 10
	// SearchPairsKept is how long a pair is kept.
	SearchPairsKept = 90 * 24 * time.Hour
	// MaxSearchModel is how large a model may be, in bytes.
	MaxSearchModel = 32 << 20
	// maxSearchModels is how many models are read, the newest first.
	maxSearchModels = 1000
)

// SearchPair is a search and a successful call of a tool that it found.
type SearchPair struct {
	Tenant, Caller string // Caller is the principal as the gate encodes it; its hash is kept
	Server, Tool   string // the tool as exposed
	Query          string // without secrets; the first [MaxSearchQuery] bytes are kept
	At             time.Time
	Place          int // of the tool in the answer, from 1
	// Shadow is the place that a model which was not in force gave it: 0 where there was no
	// such model, and negative where the model did not find the tool.
	Shadow int
}

// SearchModel is what was learned of the pairs of a tenant.
type SearchModel struct {
	Tenant    string
	Model     []byte // opaque
	TrainedAt time.Time
}

// Learning stores searches with what was called after them, and the models that are made
// of these. Every statement of a tenant names it, so that nothing of one reaches another.
// Every change of a model raises the generation of [TopicLearning]. The zero value returns
// [ErrClosed]; methods are safe for concurrent use, also by several processes.
type Learning struct {
	s *Store
}

// NewLearning returns the handle for what is learned in a store.
func NewLearning(s *Store) *Learning { return &Learning{s} }

// Add keeps pairs. The Caller of each is replaced by its hash.
func (l *Learning) Add(ctx context.Context, pairs []SearchPair) error {
	if l.s == nil {
		return ErrClosed
	}
	return l.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		for i := range pairs {
			if err := addSearchPair(ctx, tx, &pairs[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func addSearchPair(ctx context.Context, tx *Tx, p *SearchPair) error {
	caller, server, tool := PrincipalHash(p.Caller), writable(p.Server), writable(p.Tool)
	const add = `INSERT INTO search_pairs (tenant, caller, server, tool, query, at, place, shadow) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	query := writable(strings.ToValidUTF8(p.Query[:min(len(p.Query), MaxSearchQuery)], ""))
	if err := tx.execPrepared(ctx, add, foreign(p.Tenant), caller, server, tool, query, nanos(p.At), p.Place, p.Shadow); err != nil {
		return fmt.Errorf("keep a search: %w", err)
	}
	const excess = `DELETE FROM search_pairs WHERE id IN (SELECT id FROM search_pairs
		WHERE tenant = ? AND server = ? AND tool = ? AND caller = ? ORDER BY at DESC, id DESC LIMIT 1000000 OFFSET ?)`
	return wrapped("forget old searches", tx.execPrepared(ctx, excess, foreign(p.Tenant), server, tool, caller, MaxSearchPairsOfCaller))
}

// Prune removes pairs that are too old, and the oldest of a tenant that has too many.
func (l *Learning) Prune(ctx context.Context, now time.Time) error {
	if l.s == nil {
		return ErrClosed
	}
	tenants, err := l.Tenants(ctx)
	if err != nil {
		return err
	}
	return l.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM search_pairs WHERE at < ?`, nanos(now.Add(-SearchPairsKept))); err != nil {
			return fmt.Errorf("forget old searches: %w", err)
		}
		for _, tenant := range tenants {
			const excess = `DELETE FROM search_pairs WHERE id IN
				(SELECT id FROM search_pairs WHERE tenant = ? ORDER BY at DESC, id DESC LIMIT 1000000 OFFSET ?)`
			if _, err := tx.Exec(ctx, excess, foreign(tenant), MaxSearchPairs); err != nil {
				return fmt.Errorf("forget the oldest searches: %w", err)
			}
		}
		return nil
	})
}

// Tenants returns the tenants of which there are pairs, sorted.
func (l *Learning) Tenants(ctx context.Context) (list []string, err error) {
	if l.s == nil {
		return nil, ErrClosed
	}
	err = l.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.Query(ctx, `SELECT DISTINCT tenant FROM search_pairs ORDER BY tenant`)
		if err != nil {
			return fmt.Errorf("read the tenants of searches: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var tenant string
			if err := rows.Scan(&tenant); err != nil {
				return fmt.Errorf("read the tenant of searches: %w", err)
			}
			list = append(list, tenant)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Pairs returns the pairs of a tenant, the latest first. Caller is the hash.
func (l *Learning) Pairs(ctx context.Context, tenant string) (list []SearchPair, err error) {
	if l.s == nil {
		return nil, ErrClosed
	}
	err = l.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `SELECT caller, server, tool, query, at, place, shadow FROM search_pairs WHERE tenant = ? ORDER BY at DESC, id DESC LIMIT ?`
		rows, err := tx.Query(ctx, q, foreign(tenant), MaxSearchPairs)
		if err != nil {
			return fmt.Errorf("read searches: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			p := SearchPair{Tenant: tenant}
			var at int64
			if err := rows.Scan(&p.Caller, &p.Server, &p.Tool, &p.Query, &at, &p.Place, &p.Shadow); err != nil {
				return fmt.Errorf("read a search: %w", err)
			}
			p.At = instant(at)
			list = append(list, p)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// PutModel keeps the model of a tenant in place of the one before.
func (l *Learning) PutModel(ctx context.Context, tenant string, model []byte) error {
	switch {
	case l.s == nil:
		return ErrClosed
	case len(model) > MaxSearchModel:
		return fmt.Errorf("keep a model of %d bytes: %w", len(model), ErrTooLarge)
	}
	return l.s.change(ctx, TopicLearning, func(ctx context.Context, tx *Tx) (bool, error) {
		const put = `INSERT INTO search_models (tenant, model, trained_at) VALUES (?, ?, ?)
			ON CONFLICT (tenant) DO UPDATE SET model = excluded.model, trained_at = excluded.trained_at`
		_, err := tx.Exec(ctx, put, foreign(tenant), nonNil(model), nanos(time.Now()))
		return true, wrapped("keep a model", err)
	})
}

// Models returns the models of all tenants, the newest first.
func (l *Learning) Models(ctx context.Context) (list []SearchModel, err error) {
	if l.s == nil {
		return nil, ErrClosed
	}
	err = l.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.Query(ctx, `SELECT tenant, model, trained_at FROM search_models ORDER BY trained_at DESC, tenant LIMIT ?`, maxSearchModels)
		if err != nil {
			return fmt.Errorf("read models: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var m SearchModel
			var at int64
			if err := rows.Scan(&m.Tenant, &m.Model, &at); err != nil {
				return fmt.Errorf("read a model: %w", err)
			}
			m.TrainedAt = instant(at)
			list = append(list, m)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Forget removes the pairs and the model of a tenant. It returns the number of pairs.
func (l *Learning) Forget(ctx context.Context, tenant string) (pairs int, err error) {
	if l.s == nil {
		return 0, ErrClosed
	}
	err = l.s.change(ctx, TopicLearning, func(ctx context.Context, tx *Tx) (bool, error) {
		n, err := tx.Exec(ctx, `DELETE FROM search_pairs WHERE tenant = ?`, foreign(tenant))
		pairs = int(n)
		models, err2 := tx.Exec(ctx, `DELETE FROM search_models WHERE tenant = ?`, foreign(tenant))
		return models > 0, wrapped("forget searches", errors.Join(err, err2))
	})
	return pairs, err
}
