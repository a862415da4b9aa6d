package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
)

// applicationID marks a file as a toolgate store (PRAGMA application_id):
// "tgat" in ASCII.
const applicationID = 0x74676174

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the schema: its version is its place, from 1.
type migration struct {
	name string
	sql  string
}

// migrations returns the embedded steps in order. The name of each begins
// with its version in four digits, without a gap.
func migrations() ([]migration, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	list := make([]migration, 0, len(entries))
	for i, e := range entries { // ReadDir sorts by name
		number, _, _ := strings.Cut(e.Name(), "_")
		if version, err := strconv.Atoi(number); err != nil || len(number) != 4 || version != i+1 {
			return nil, fmt.Errorf("migration %s is not numbered %04d", e.Name(), i+1)
		}
		text, err := fs.ReadFile(migrationFiles, "migrations/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		list = append(list, migration{name: strings.TrimSuffix(e.Name(), ".sql"), sql: string(text)})
	}
	return list, nil
}

// migrate brings the schema of db to the version of this build, each step in
// its own transaction together with the version it leads to: what is
// interrupted goes on at the next start where it stopped.
func migrate(ctx context.Context, db *sql.DB, path string, log *slog.Logger) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, db, path, len(list))
	if err != nil {
		return err
	}
	for i := version; i < len(list); i++ {
		if err := step(ctx, db, list[i], i+1); err != nil {
			return explain(path, "migrate store to schema "+list[i].name+" in", err)
		}
		log.Debug("store schema migrated", slog.String("path", path), slog.String("to", list[i].name))
	}
	return nil
}

// step applies one migration and records its version.
func step(ctx context.Context, db *sql.DB, m migration, version int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it has nothing to do
	// A pragma takes no parameters; both values are numbers of ours.
	record := fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, version)
	for _, text := range []string{m.sql, record} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// requireCurrent refuses a store that this build cannot read without
// migrating it first.
func requireCurrent(ctx context.Context, db *sql.DB, path string) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, db, path, len(list))
	if err != nil {
		return err
	}
	if version < len(list) {
		return fmt.Errorf("open store %s for reading: its schema is %d and this toolgate reads %d: start toolgate once with this store to bring it up to date",
			path, version, len(list))
	}
	return nil
}

// schemaVersion returns the schema version of db, 0 for an empty file. It
// refuses a file of something else, and one of a newer toolgate: forward-only
// migrations cannot be undone, and writing under rules that are not known
// here could spoil it.
func schemaVersion(ctx context.Context, db *sql.DB, path string, known int) (int, error) {
	var application, version, objects int
	for _, q := range []struct {
		text string
		into *int
	}{
		{"PRAGMA application_id", &application},
		{"PRAGMA user_version", &version},
		{"SELECT count(*) FROM sqlite_schema", &objects},
	} {
		if err := db.QueryRowContext(ctx, q.text).Scan(q.into); err != nil {
			return 0, explain(path, "open store", err)
		}
	}
	switch {
	case application == 0 && version == 0 && objects == 0:
		return 0, nil
	case application != applicationID:
		return 0, fmt.Errorf("open store %s: it is a database of another program: name another file (toolgate.store)", path)
	case version > known:
		return 0, fmt.Errorf("open store %s: its schema is %d, written by a newer toolgate; this one knows up to %d: run that newer version, or give this one a store of its own (toolgate.store)",
			path, version, known)
	}
	return version, nil
}
