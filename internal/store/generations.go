package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// Topics of this package. Each has a generation: a number that rises with every change
// under the topic.
const (
	TopicRegistry     = "registry"      // see [Registry]
	TopicFlags        = "flags"         // see [Flags]
	TopicRestrictions = "restrictions"  // see [Restrictions]
	TopicDynamic      = "dynamic"       // see [Dynamic]
	TopicMode         = "mode"          // see [Modes]
	TopicApprovals    = "approvals"     // see [Approvals]
	TopicCredentials  = "credentials"   // see [Credentials]
	TopicDeclared     = "declared"      // see [Declared]
	TopicDynamicTools = "dynamic_tools" // see [DynamicTools]
	TopicSchedules    = "schedules"     // see [Schedules]
	TopicLearning     = "learning"      // see [Learning]
	TopicRuns         = "runs"          // see package runs
)

// lockMigrate is the name of the lock that serialises migrations.
const lockMigrate = "migrate"

// Generation returns the generation of topic: 0 before its first change, then one more
// with every transaction that changes it.
func (s *Store) Generation(ctx context.Context, topic string) (generation int64, err error) {
	err = s.View(ctx, func(ctx context.Context, tx *Tx) error {
		generation, err = tx.Generation(ctx, topic)
		return err
	})
	return generation, err
}

// Generations returns the generations of all topics that have ever changed.
func (s *Store) Generations(ctx context.Context) (map[string]int64, error) {
	all := map[string]int64{}
	err := s.View(ctx, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.Query(ctx, `SELECT topic, generation FROM generation`)
		if err != nil {
			return fmt.Errorf("read generations: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var topic string
			var generation int64
			if err := rows.Scan(&topic, &generation); err != nil {
				return fmt.Errorf("read generations: %w", err)
			}
			all[topic] = generation
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Generation returns the generation of topic in the state that t sees. In a
// [Store.View] it matches everything else that is read there.
func (t *Tx) Generation(ctx context.Context, topic string) (generation int64, err error) {
	err = t.QueryRow(ctx, `SELECT generation FROM generation WHERE topic = ?`, topic).Scan(&generation)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read generation of %s: %w", topic, err)
	}
	return generation, nil
}

// raise raises the generations of topics at the end of a transaction. It locks their
// rows until the commit, always in the same order, so that two processes cannot
// deadlock here.
func (s *Store) raise(ctx context.Context, raw transaction, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	slices.Sort(topics)
	tx := &Tx{raw: raw, dialect: s.dialect}
	for _, topic := range topics {
		const q = `INSERT INTO generation (topic, generation) VALUES (?, 1)
			ON CONFLICT (topic) DO UPDATE SET generation = generation.generation + 1`
		if _, err := tx.Exec(ctx, q, topic); err != nil {
			return fmt.Errorf("raise generation of %s: %w", topic, err)
		}
	}
	return s.dialect.notify(ctx, raw, topics)
}
