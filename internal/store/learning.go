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
	// SearchPairsKept is how long a pair is kept, and the words that were learned of it.
	SearchPairsKept = 90 * 24 * time.Hour
	// forgottenKept is how long it is known when a tenant was forgotten. Nothing that is on
	// its way into the store takes so long.
	forgottenKept = 24 * time.Hour
)

// SearchPair is a search and a successful call of a tool that it found.
type SearchPair struct {
	Tenant, Caller string // Caller is the principal as the gate encodes it; its hash is kept
	Server, Tool   string // the tool as exposed
	Query          string // without secrets; the first [MaxSearchQuery] bytes are kept
	At             time.Time
	// Searched is when the search was, At for the zero time. It is not kept.
	Searched time.Time
	Place    int // of the tool in the answer, from 1
	// Shadow is the place that a model which was not in force gave it: 0 where there was no
	// such model, and negative where the model did not find the tool.
	Shadow int
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

// Add keeps pairs, except those of searches from before their tenant was forgotten. The
// Caller of each is replaced by its hash.
func (l *Learning) Add(ctx context.Context, pairs []SearchPair) error {
	if l.s == nil {
		return ErrClosed
	}
	return l.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.Lock(ctx, TopicLearning); err != nil { // nobody forgets meanwhile
			return err
		}
		forgotten := make(map[string]int64)
		for i := range pairs {
			p := &pairs[i]
			at, known := forgotten[p.Tenant]
			if !known {
				var err error
				if at, err = forgottenAt(ctx, tx, p.Tenant); err != nil {
					return err
				}
				forgotten[p.Tenant] = at
			}
			searched := p.Searched
			if searched.IsZero() {
				searched = p.At
			}
			if at != 0 && nanos(searched) <= at {
				continue
			}
			if err := addSearchPair(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgottenAt returns when the searches of a tenant were forgotten, 0 for never.
func forgottenAt(ctx context.Context, tx *Tx, tenant string) (at int64, err error) {
	err = tx.QueryRow(ctx, `SELECT COALESCE((SELECT at FROM search_forgotten WHERE tenant = ?), 0)`, foreign(tenant)).Scan(&at)
	return at, wrapped("read when searches were forgotten", err)
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

// Prune removes pairs that are too old, and the oldest of a tenant that has too many. It
// also removes models in which nothing can be younger than a pair may be.
func (l *Learning) Prune(ctx context.Context, now time.Time) error {
	if l.s == nil {
		return ErrClosed
	}
	tenants, err := l.Tenants(ctx)
	if err != nil {
		return err
	}
	oldest := nanos(now.Add(-SearchPairsKept))
	err = l.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM search_pairs WHERE at < ?`, oldest); err != nil {
			return fmt.Errorf("forget old searches: %w", err)
		}
		for _, tenant := range tenants {
			const excess = `DELETE FROM search_pairs WHERE id IN
				(SELECT id FROM search_pairs WHERE tenant = ? ORDER BY at DESC, id DESC LIMIT 1000000 OFFSET ?)`
			if _, err := tx.Exec(ctx, excess, foreign(tenant), MaxSearchPairs); err != nil {
				return fmt.Errorf("forget the oldest searches: %w", err)
			}
		}
		_, err := tx.Exec(ctx, `DELETE FROM search_forgotten WHERE at < ?`, nanos(now.Add(-forgottenKept)))
		return wrapped("forget what was forgotten", err)
	})
	if err != nil {
		return err
	}
	return l.s.change(ctx, TopicLearning, func(ctx context.Context, tx *Tx) (bool, error) {
		n, err := tx.Exec(ctx, `DELETE FROM search_models WHERE trained_at < ?`, oldest)
		return n > 0, wrapped("forget old models", err)
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

// SearchesStatement returns the statement of [Learning.Searches] with its arguments.
func SearchesStatement(since time.Time, limit int) (text string, args []any) {
	return `SELECT tenant, caller, server, tool, query, at, place, shadow FROM search_pairs WHERE at >= ? ORDER BY at DESC, id DESC LIMIT ?`, []any{nanos(since), limit}
}

// Searches returns the latest pairs of all tenants since a time, the latest first. The Caller of
// each is the hash.
func (l *Learning) Searches(ctx context.Context, since time.Time, limit int) (list []SearchPair, err error) {
	if l.s == nil {
		return nil, ErrClosed
	}
	q, args := SearchesStatement(since, limit)
	err = l.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		list = []SearchPair{}
		rows, err := tx.Query(ctx, q, args...)
		if err != nil {
			return fmt.Errorf("read searches: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var p SearchPair
			var at int64
			if err := rows.Scan(&p.Tenant, &p.Caller, &p.Server, &p.Tool, &p.Query, &at, &p.Place, &p.Shadow); err != nil {
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

// Learnable are the pairs of a tenant, of which a model can be made.
type Learnable struct {
	Pairs     []SearchPair // the latest first; Caller is the hash
	tenant    string
	forgotten int64 // when the tenant was forgotten before
}

// Pairs returns the pairs of a tenant.
func (l *Learning) Pairs(ctx context.Context, tenant string) (of Learnable, err error) {
	if l.s == nil {
		return of, ErrClosed
	}
	err = l.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		of = Learnable{tenant: tenant}
		if of.forgotten, err = forgottenAt(ctx, tx, tenant); err != nil {
			return err
		}
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
			of.Pairs = append(of.Pairs, p)
		}
		return rows.Err()
	})
	if err != nil {
		return Learnable{}, err
	}
	return of, nil
}

// Forget removes the pairs and the model of a tenant. Pairs of searches from before do not
// come back, and neither does a model that was made of them. It returns the number of
// pairs.
func (l *Learning) Forget(ctx context.Context, tenant string) (pairs int, err error) {
	if l.s == nil {
		return 0, ErrClosed
	}
	err = l.s.change(ctx, TopicLearning, func(ctx context.Context, tx *Tx) (bool, error) {
		n, err := tx.Exec(ctx, `DELETE FROM search_pairs WHERE tenant = ?`, foreign(tenant))
		pairs = int(n)
		models, err2 := tx.Exec(ctx, `DELETE FROM search_models WHERE tenant = ?`, foreign(tenant))
		before, err3 := forgottenAt(ctx, tx, tenant)
		if err := errors.Join(err, err2, err3); err != nil {
			return false, wrapped("forget searches", err)
		}
		const note = `INSERT INTO search_forgotten (tenant, at) VALUES (?, ?) ON CONFLICT (tenant) DO UPDATE SET at = excluded.at`
		_, err = tx.Exec(ctx, note, foreign(tenant), max(before+1, nanos(time.Now())))
		return models > 0, wrapped("forget searches", err)
	})
	return pairs, err
}

const (
	// MaxSearchModel is how large a model of a tenant may be, in bytes.
	MaxSearchModel = 16 << 20
	// maxSearchModels is how many tenants have models.
	maxSearchModels = 1000
)

var (
	// ErrForgotten is returned for a model of searches that were forgotten meanwhile.
	ErrForgotten = errors.New("the searches have been forgotten meanwhile")
	// ErrTooManyModels is returned for a model of one more tenant than may have one.
	ErrTooManyModels = fmt.Errorf("%d tenants have models, and no more may: forget one of them", maxSearchModels)
)

// SearchModel is what was learned of the pairs of a tenant.
type SearchModel struct {
	Tenant    string
	Model     []byte // opaque; nil in a list
	TrainedAt time.Time
	Version   int64 // another one for each change
}

// PutModel keeps the model that was made of pairs, in place of the one of the tenant
// before. It returns [ErrForgotten] where these have been forgotten since they were read.
func (l *Learning) PutModel(ctx context.Context, of *Learnable, model []byte) error {
	switch {
	case l.s == nil:
		return ErrClosed
	case len(model) > MaxSearchModel:
		return fmt.Errorf("keep a model of %d bytes: %w", len(model), ErrTooLarge)
	}
	return l.s.change(ctx, TopicLearning, func(ctx context.Context, tx *Tx) (bool, error) {
		forgotten, err := forgottenAt(ctx, tx, of.tenant)
		switch {
		case err != nil:
			return false, err
		case forgotten != of.forgotten:
			return false, ErrForgotten
		}
		var others int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM search_models WHERE tenant <> ?`, foreign(of.tenant)).Scan(&others); err != nil {
			return false, wrapped("keep a model", err)
		}
		if others >= maxSearchModels {
			return false, ErrTooManyModels
		}
		generation, err := tx.Generation(ctx, TopicLearning)
		if err != nil {
			return false, wrapped("keep a model", err)
		}
		const put = `INSERT INTO search_models (tenant, model, trained_at, version) VALUES (?, ?, ?, ?)
			ON CONFLICT (tenant) DO UPDATE SET model = excluded.model, trained_at = excluded.trained_at, version = excluded.version`
		_, err = tx.Exec(ctx, put, foreign(of.tenant), nonNil(model), nanos(time.Now()), generation+1)
		return true, wrapped("keep a model", err)
	})
}

// Shorten keeps less of a model that was learned before, and removes it for nil. Where the
// tenant has another one by now, that stays.
func (l *Learning) Shorten(ctx context.Context, m SearchModel) error {
	if l.s == nil {
		return ErrClosed
	}
	return l.s.change(ctx, TopicLearning, func(ctx context.Context, tx *Tx) (bool, error) {
		var n int64
		generation, err := tx.Generation(ctx, TopicLearning)
		switch {
		case err != nil:
		case m.Model == nil:
			n, err = tx.Exec(ctx, `DELETE FROM search_models WHERE tenant = ? AND version = ?`, foreign(m.Tenant), m.Version)
		default:
			n, err = tx.Exec(ctx, `UPDATE search_models SET model = ?, version = ? WHERE tenant = ? AND version = ?`, m.Model, generation+1, foreign(m.Tenant), m.Version)
		}
		return n > 0, wrapped("shorten a model", err)
	})
}

// Models lists the models of all tenants, sorted, without what is in them.
func (l *Learning) Models(ctx context.Context) (list []SearchModel, err error) {
	if l.s == nil {
		return nil, ErrClosed
	}
	err = l.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		list = nil
		rows, err := tx.Query(ctx, `SELECT tenant, trained_at, version FROM search_models ORDER BY tenant LIMIT ?`, maxSearchModels)
		if err != nil {
			return fmt.Errorf("read models: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var m SearchModel
			var at int64
			if err := rows.Scan(&m.Tenant, &at, &m.Version); err != nil {
				return fmt.Errorf("read models: %w", err)
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

// Model returns the model of a tenant. ok is false where it has none.
func (l *Learning) Model(ctx context.Context, tenant string) (m SearchModel, ok bool, err error) {
	if l.s == nil {
		return m, false, ErrClosed
	}
	err = l.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		m = SearchModel{Tenant: tenant}
		var at int64
		row := tx.QueryRow(ctx, `SELECT model, trained_at, version FROM search_models WHERE tenant = ? AND LENGTH(model) <= ?`, foreign(tenant), MaxSearchModel)
		_, ok, err = found(struct{}{}, row.Scan(&m.Model, &at, &m.Version))
		m.TrainedAt = instant(at)
		return wrapped("read a model", err)
	})
	return m, ok, err
}
