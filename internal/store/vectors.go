package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// MaxVector is how large a vector may be, in bytes.
	MaxVector = 64 << 10
	// maxVectors is how many vectors are kept in all.
	maxVectors = 200_000
	// vectorAge is how long a vector is kept after its last use.
	vectorAge = 90 * 24 * time.Hour
	// vectorTouch is how exactly the last use is known.
	vectorTouch = 24 * time.Hour
)

// Vectors stores what an embedding model made of texts. A space stands for the model, and
// a key for the text; both are hashes. The zero value returns [ErrClosed]; methods are
// safe for concurrent use, also by several processes.
type Vectors struct {
	s *Store
}

// NewVectors returns the handle for vectors in a store.
func NewVectors(s *Store) *Vectors { return &Vectors{s} }

// Load returns the vectors of a space that there are, by their keys.
func (v *Vectors) Load(ctx context.Context, space string, keys []string) (map[string][]byte, error) {
	if v.s == nil {
		return nil, ErrClosed
	}
	if err := checkVectorKeys(space, keys); err != nil {
		return nil, fmt.Errorf("load vectors: %w", err)
	}
	found := make(map[string][]byte, len(keys))
	var idle []string
	err := v.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		clear(found)
		idle = nil
		for some := range slices.Chunk(keys, rowsPerStatement) {
			old, err := loadVectors(ctx, tx, space, some, found)
			if err != nil {
				return fmt.Errorf("load vectors: %w", err)
			}
			idle = append(idle, old...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, v.touch(ctx, space, idle)
}

// loadVectors adds the vectors of some keys to found, and returns the keys whose use has
// to be noted.
func loadVectors(ctx context.Context, tx *Tx, space string, keys []string, found map[string][]byte) (idle []string, err error) {
	rows, err := tx.Query(ctx, `SELECT text, body, used_at FROM vector WHERE space = ? AND text IN (`+repeated("?", ", ", len(keys))+`)`, inSpace(space, keys)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var body []byte
		var used int64
		if err := rows.Scan(&key, &body, &used); err != nil {
			return nil, err
		}
		found[key] = body
		if time.Since(instant(used)) > vectorTouch {
			idle = append(idle, key)
		}
	}
	return idle, rows.Err()
}

// inSpace returns the arguments of a statement about keys of a space.
func inSpace(space string, keys []string) []any {
	args := make([]any, 0, 1+len(keys))
	args = append(args, space)
	for _, k := range keys {
		args = append(args, k)
	}
	return args
}

// touch notes that vectors are in use.
func (v *Vectors) touch(ctx context.Context, space string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return v.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		for some := range slices.Chunk(keys, rowsPerStatement) {
			args := append([]any{nanos(time.Now())}, inSpace(space, some)...)
			if _, err := tx.Exec(ctx, `UPDATE vector SET used_at = ? WHERE space = ? AND text IN (`+repeated("?", ", ", len(some))+`)`, args...); err != nil {
				return fmt.Errorf("note the use of vectors: %w", err)
			}
		}
		return nil
	})
}

// Save keeps vectors of a space. Those that there are already are replaced.
func (v *Vectors) Save(ctx context.Context, space string, vectors map[string][]byte) error {
	if v.s == nil {
		return ErrClosed
	}
	keys := slices.Sorted(maps.Keys(vectors)) // in one order, so that two processes cannot deadlock
	if err := checkVectorKeys(space, keys); err != nil {
		return fmt.Errorf("save vectors: %w", err)
	}
	for _, key := range keys {
		if n := len(vectors[key]); n > MaxVector {
			return fmt.Errorf("save a vector of %d bytes: %w", n, ErrTooLarge)
		}
	}
	return v.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		now := nanos(time.Now())
		for some := range slices.Chunk(keys, rowsPerStatement) {
			args := make([]any, 0, 4*len(some))
			for _, key := range some {
				args = append(args, space, key, nonNil(vectors[key]), now)
			}
			q := `INSERT INTO vector (space, text, body, used_at) VALUES ` + repeated(`(?, ?, ?, ?)`, ", ", len(some)) +
				` ON CONFLICT (space, text) DO UPDATE SET body = excluded.body, used_at = excluded.used_at`
			if _, err := tx.Exec(ctx, q, args...); err != nil {
				return fmt.Errorf("save vectors: %w", err)
			}
		}
		return nil
	})
}

func checkVectorKeys(space string, keys []string) error {
	err := checkText("space", space, maxName)
	for _, key := range keys {
		if err == nil {
			err = checkText("key", key, maxName)
		}
	}
	return err
}

// pruneVectors deletes what nobody has used for a long time, and the least recently used
// of too many.
func pruneVectors(ctx context.Context, tx *Tx, now time.Time, most int) error {
	oldest := nanos(now.Add(-vectorAge))
	var bound int64
	err := tx.QueryRow(ctx, `SELECT COALESCE((SELECT used_at FROM vector ORDER BY used_at DESC LIMIT 1 OFFSET ?), 0)`, most).Scan(&bound)
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM vector WHERE used_at <= ?`, max(oldest, bound))
	}
	return wrapped("forget unused vectors", err)
}
