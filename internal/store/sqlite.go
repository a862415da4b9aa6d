package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// applicationID marks a file as a toolgate store (PRAGMA application_id), and an
// advisory lock of PostgreSQL as toolgate's: "tgat" in ASCII.
const applicationID = 0x74676174

// Primary result codes of SQLite (https://www.sqlite.org/rescode.html) that a person
// can do something about. They are the low byte of extended codes.
const (
	codePerm     = 3
	codeBusy     = 5
	codeReadOnly = 8
	codeIOErr    = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeNotADB   = 26
)

// damaged is the advice for a corrupt file. Everything in it except operator decisions
// refills by itself.
const damaged = "move the file away together with its -wal and -shm neighbours, then restore a backup or start with an empty store"

// busyTimeout bounds the wait for another process's lock, in milliseconds. Only readers
// of other processes and backups can hold one.
const busyTimeout = "5000"

// writerParams are the settings of the writing connection.
func writerParams(durable bool) url.Values {
	sync := "NORMAL"
	if durable {
		sync = "FULL"
	}
	v := commonParams()
	v.Set("_journal_mode", "WAL")
	v.Set("_synchronous", sync)
	v.Set("_foreign_keys", "1")
	// A transaction takes the write lock at its beginning, so that it cannot fail
	// halfway without it.
	v.Set("_txlock", "immediate")
	// The write-ahead log is copied into the file when it has this many pages, about 12
	// MiB. Most of them are the same few pages and are copied once. Afterwards the log
	// is cut back to 16 MiB.
	v.Add("_pragma", "wal_autocheckpoint(3000)")
	v.Add("_pragma", "journal_size_limit(16777216)")
	return v
}

// readerParams are the settings of the reading connections.
func readerParams() url.Values {
	v := commonParams()
	v.Set("mode", "ro")
	v.Set("_query_only", "1")
	return v
}

// commonParams protect against files that someone else prepared, and limit errors to
// the failed operation.
func commonParams() url.Values {
	return url.Values{
		"_busy_timeout": {busyTimeout},
		"_defensive":    {"1"},
		"_dqs":          {"0"},
		"_error_rc":     {"1"},
		"_pragma":       {"trusted_schema(0)", "cell_size_check(1)"},
	}
}

// connect returns a pool of at most conns connections to the database at path. It opens
// the file at the first use.
func connect(path string, conns int, params url.Values) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn(path, params))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(conns)
	// Connections are kept: opening one reads the schema again, and the one connection
	// of a store in memory is the store.
	db.SetMaxIdleConns(conns)
	return db, nil
}

// dsn names path as a URI, so that no character of it is taken for a parameter.
func dsn(path string, params url.Values) string {
	if path == Memory {
		return "file::memory:?" + params.Encode()
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // a drive letter
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}).String()
}

// requireWAL refuses file systems without support for SQLite's write-ahead log: readers
// would block the writer there, and locks do not work.
func requireWAL(ctx context.Context, db *sql.DB, path string) error {
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return explain(path, "open store", err)
	}
	if mode != "wal" {
		return fmt.Errorf("open store %s: its file system does not allow a write-ahead log (journal mode is %q): put the store on a local disk", path, mode)
	}
	return nil
}

// sqliteDialect is SQLite as a file or in memory. One process writes through one
// connection, so that there is nobody to lock out or notify.
type sqliteDialect struct{}

func (sqliteDialect) folder() string { return "sqlite" }

func (sqliteDialect) bind(query string, args []any) (string, []any) { return query, args }

// In memory the one connection is shared with the writer, whose transactions are
// immediate; a read-only one takes no write lock.
func (sqliteDialect) reading() *sql.TxOptions { return &sql.TxOptions{ReadOnly: true} }

func (sqliteDialect) writing() *sql.TxOptions { return nil }

func (sqliteDialect) version(ctx context.Context, q querier) (int, error) {
	var application, version, objects int
	for _, read := range []struct {
		text string
		into *int
	}{
		{"PRAGMA application_id", &application},
		{"PRAGMA user_version", &version},
		{"SELECT count(*) FROM sqlite_schema", &objects},
	} {
		if err := q.QueryRowContext(ctx, read.text).Scan(read.into); err != nil {
			return 0, err
		}
	}
	switch {
	case application == 0 && version == 0 && objects == 0:
		return 0, nil
	case application != applicationID:
		return 0, errForeign
	}
	return version, nil
}

func (sqliteDialect) empty(ctx context.Context, q querier) (empty bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)").Scan(&empty)
	return empty, err
}

func (sqliteDialect) whole([]migration) string { return sqliteSchema }

func (sqliteDialect) record(ctx context.Context, tx *sql.Tx, version int) error {
	// A pragma takes no parameters; both values are our own numbers.
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, version))
	return err
}

func (sqliteDialect) lock(context.Context, session, string) error { return nil }

func (sqliteDialect) notify(context.Context, session, []string) error { return nil }

func (sqliteDialect) maxBatch() int { return maxBatch }

func (sqliteDialect) failsWhole() bool { return true }

func (sqliteDialect) retryable(error) bool { return false }

func (sqliteDialect) uncertain(error) bool { return false }

// sqliteAdvice returns what a person can do about err, or nothing.
func sqliteAdvice(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "no permission; check the owner and mode of the file and its folder"
	}
	se, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return ""
	}
	switch se.Code() & 0xff {
	case codeNotADB:
		return "the file is damaged or is not a database; " + damaged
	case codeCorrupt:
		return "the file is damaged; " + damaged
	case codeFull:
		return "the disk is full; make room on it"
	case codePerm, codeReadOnly, codeCantOpen:
		return "the file cannot be opened or written; check the owner, mode and mount of the file and its folder"
	case codeIOErr:
		return "the disk answered with an error; check the disk and the room on it"
	case codeBusy:
		return "another process kept the file locked for 5 s; end what else has it open for writing"
	}
	return ""
}
