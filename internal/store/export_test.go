package store

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

// Migrations returns the names of the embedded migrations in order.
func Migrations(folder string) ([]string, error) {
	list, err := migrations(folder)
	names := make([]string, len(list))
	for i, m := range list {
		names[i] = m.name
	}
	return names, err
}

// MigrateTo creates a store at path as a build with only the first n migrations left
// it, and returns it.
func MigrateTo(ctx context.Context, path string, n int) (*sql.DB, error) {
	list, err := migrations("sqlite")
	if err != nil {
		return nil, err
	}
	if err := createPrivate(path, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	db, err := connect(path, 1, writerParams(false))
	if err != nil {
		return nil, err
	}
	return db, steps(ctx, db, sqliteDialect{}, list[:n])
}

// MigratePostgres applies all migrations, one after the other, to the database at address,
// and returns it.
func MigratePostgres(ctx context.Context, address string) (*sql.DB, error) {
	list, err := migrations("postgres")
	if err != nil {
		return nil, err
	}
	config, err := parsePostgres(address, Options{})
	if err != nil {
		return nil, err
	}
	db := postgresPool(config, 1)
	return db, steps(ctx, db, postgresDialect{}, list)
}

func steps(ctx context.Context, db *sql.DB, d dialect, list []migration) error {
	for i, m := range list {
		if _, err := step(ctx, db, d, m, i+1); err != nil {
			return err
		}
	}
	return nil
}

// Numbered is numbered.
func Numbered(query string) string { return numbered(query) }

// PollNever makes a new Watch depend on notifications.
func PollNever(s *Store) { s.pollEach = 24 * time.Hour }
