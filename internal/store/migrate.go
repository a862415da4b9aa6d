package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// migrateTimeout bounds the wait for another process that migrates, and each of our own
// steps.
const migrateTimeout = 2 * time.Minute

//go:embed migrations/*/*.sql
var migrationFiles embed.FS

// sqliteSchema is what all migrations of SQLite make together. SQLite reads the whole
// schema again at each change of a table, so this takes a third of their time.
//
//go:embed schema/sqlite.sql
var sqliteSchema string

// errForeign means that a database belongs to another program.
var errForeign = errors.New("it is a database of another program: name another one (toolgate.store)")

// migration is one step of the schema. Its version is its position, from 1.
type migration struct {
	name string
	sql  string
}

// migrations returns the embedded steps of a folder in order. Each file name begins
// with its version in four digits, without gaps. A version means the same in every
// dialect.
func migrations(folder string) ([]migration, error) {
	folder = "migrations/" + folder
	entries, err := fs.ReadDir(migrationFiles, folder)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	list := make([]migration, 0, len(entries))
	for i, e := range entries { // ReadDir sorts by name
		number, _, _ := strings.Cut(e.Name(), "_")
		if version, err := strconv.Atoi(number); err != nil || len(number) != 4 || version != i+1 {
			return nil, fmt.Errorf("migration %s is not numbered %04d", e.Name(), i+1)
		}
		text, err := fs.ReadFile(migrationFiles, folder+"/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		list = append(list, migration{name: strings.TrimSuffix(e.Name(), ".sql"), sql: string(text)})
	}
	return list, nil
}

// migrate brings the schema of db to the version of this build. An empty database gets
// all of it in one transaction. Otherwise each step is one transaction that also records
// its version, so that an interrupted migration continues at the next start.
func migrate(ctx context.Context, db *sql.DB, d dialect, path string, log *slog.Logger) error {
	list, err := migrations(d.folder())
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, db, d, path, len(list))
	if err != nil {
		return err
	}
	if version == 0 {
		if err := create(ctx, db, d, list); err != nil {
			return explain(path, "create the tables of store", err)
		}
		if version, err = schemaVersion(ctx, db, d, path, len(list)); err != nil {
			return err
		}
	}
	for i := version; i < len(list); i++ {
		done, err := step(ctx, db, d, list[i], i+1)
		if err != nil {
			return explain(path, "migrate store to schema "+list[i].name+" in", err)
		}
		if done {
			log.Debug("store schema migrated", slog.String("path", path), slog.String("to", list[i].name))
		}
	}
	// Another process may have gone further meanwhile.
	_, err = schemaVersion(ctx, db, d, path, len(list))
	return err
}

// create makes the schema of this build in an empty database, and leaves any other as it
// is.
func create(ctx context.Context, db *sql.DB, d dialect, list []migration) error {
	_, err := change(ctx, db, d, d.whole(list), len(list), func(ctx context.Context, tx *sql.Tx) (bool, error) {
		return d.empty(ctx, tx)
	})
	return err
}

// step applies one migration and records its version, unless it is done.
func step(ctx context.Context, db *sql.DB, d dialect, m migration, version int) (done bool, err error) {
	return change(ctx, db, d, m.sql, version, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		now, err := d.version(ctx, tx)
		return now < version, err
	})
}

// change runs the statements of text and records the version that they lead to, in one
// transaction, if they are due. Of several processes that share the database one does
// it, and the others find it done.
func change(ctx context.Context, db *sql.DB, d dialect, text string, version int, due func(context.Context, *sql.Tx) (bool, error)) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	tx, err := db.BeginTx(ctx, d.writing())
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it has nothing to do
	if err := d.lock(ctx, tx, lockMigrate); err != nil {
		return false, err
	}
	if do, err := due(ctx, tx); err != nil || !do {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return false, err
	}
	if err := d.record(ctx, tx, version); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// requireCurrent refuses a store that must be migrated before this build can read it.
func requireCurrent(ctx context.Context, db *sql.DB, d dialect, path string) error {
	list, err := migrations(d.folder())
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, db, d, path, len(list))
	if err != nil {
		return err
	}
	if version < len(list) {
		return fmt.Errorf("open store %s for reading: its schema is %d and this toolgate reads %d: start toolgate once with this store to bring it up to date",
			path, version, len(list))
	}
	return nil
}

// schemaVersion returns the schema version of db, 0 for an empty one. It refuses a
// database of another program, and one of a newer toolgate: migrations cannot be
// undone, and this build could damage it.
func schemaVersion(ctx context.Context, db querier, d dialect, path string, known int) (int, error) {
	version, err := d.version(ctx, db)
	if err != nil {
		return 0, explain(path, "open store", err)
	}
	if version > known {
		return 0, fmt.Errorf("open store %s: its schema is %d, written by a newer toolgate; this one knows up to %d: run that newer version, or give this one a store of its own (toolgate.store)",
			path, version, known)
	}
	return version, nil
}
