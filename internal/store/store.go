package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolgate/toolgate/internal/filelock"
)

// Memory is the [Options.Path] of a store in memory, which ends with its process.
const Memory = ":memory:"

// readers bounds the reading connections. Reads are short and mostly at the start; more
// connections would only cost memory.
const readers = 4

// readTimeout bounds a read whose caller has set no earlier deadline.
const readTimeout = 10 * time.Second

var (
	// ErrClosed is returned by a closed store and by the zero Store.
	ErrClosed = errors.New("the store is closed")
	// ErrReadOnly is returned for writes to a read-only store.
	ErrReadOnly = errors.New("the store was opened for reading only")
	// ErrQueueFull is returned by [Store.Enqueue] when the write queue is full. Nothing
	// was written.
	ErrQueueFull = errors.New("the queue of writes to the store is full")
	// ErrTooLarge is returned for a value above its documented limit.
	ErrTooLarge = errors.New("too large to store")
	// ErrTaken means that a name belongs to another owner.
	ErrTaken = errors.New("the name is taken")
	// ErrTooMany is returned when a limit of records is reached.
	ErrTooMany = errors.New("too many in the store")
	// ErrUncertain is returned for a write whose commit was sent to PostgreSQL but not
	// acknowledged: it may have happened or not. Treat it as done for things that must
	// happen at most once, and as refused for guards.
	ErrUncertain = errors.New("it is not known whether this was written")
)

// Options configure the store to open.
type Options struct {
	// URL names a PostgreSQL database that several processes may share:
	// postgres://user:password@host:5432/database, with the parameters of libpq
	// (sslmode, search_path, several hosts and so on). PGPASSWORD and the other
	// variables of libpq fill in what it leaves out. It is never printed. Path must
	// then be empty.
	//
	// The database's encoding must be UTF8, and the user must be able to create tables
	// in its current schema. A store uses up to 7 connections.
	URL string

	// Path names the database file of SQLite. If it does not exist, it is created with
	// mode 0600, its folder with 0700. Empty or [Memory] is a store in memory.
	Path string

	// Durable makes every commit survive a loss of power (synchronous=FULL), at the
	// cost of an fsync per batch. Without it a commit survives a crash of the process,
	// but the last ones may be lost with the power (synchronous=NORMAL). PostgreSQL is
	// durable by default; Durable overrides another setting of it (synchronous_commit).
	Durable bool

	// ReadOnly opens an existing store while another process writes it, without the
	// lock and without migrating it. Every write returns [ErrReadOnly].
	ReadOnly bool

	// Await makes [Open] return a store even if no PostgreSQL server answers at URL, or
	// it is just starting. [Store.Run] then connects as soon as it can; until then all
	// calls return [ErrUnreached]. A refusal by the server, as for a wrong password, is
	// still an error of [Open], but none later. It has no effect on other stores.
	Await bool

	// Queue bounds the writes that wait for the writer; 0 means 4096.
	Queue int

	// Logger receives errors that no caller gets; nil discards them.
	Logger *slog.Logger
}

// Store is an open store. Its methods are safe for concurrent use. The zero value
// returns [ErrClosed].
type Store struct {
	path    string // for people
	log     *slog.Logger
	dialect dialect
	lock    *filelock.Lock // of a file opened for writing; else nil
	write   *sql.DB        // nil when read-only; one connection
	read    *sql.DB        // the same as write in memory
	direct  *sql.DB        // for statements that commit by themselves; nil without PostgreSQL
	durable bool           // see [Options.Durable]

	own        *connection // writes a file; else nil
	statements statements  // of write, in memory

	// listen opens a connection for notifications; nil without PostgreSQL.
	listen func(ctx context.Context) (*pgx.Conn, error)

	absent   connectError
	writer   writer
	watchers watchers
	pollEach time.Duration // how often a Watch reads the generations

	closeOnce sync.Once
	closeErr  error
}

// Open opens the store that o names, creates it if it does not exist, and migrates its
// schema. It refuses a file that another process has open for writing, that is damaged,
// that is not a toolgate store, or whose schema is newer than this build. The error
// tells which and what to do. A PostgreSQL database must exist and answer. If several
// processes start at once, one creates or migrates the tables and the others wait. ctx
// bounds only the opening.
//
// Open starts no goroutine; see [Store.Run]. The caller must [Store.Close] the store.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	s := &Store{path: o.Path, log: o.Logger, dialect: sqliteDialect{}, durable: o.Durable, pollEach: pollEvery}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.writer.init(o.Queue)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()

	if o.URL != "" {
		if o.Path != "" {
			return nil, errors.New("open store: it is either a file or an address, not both (toolgate.store)")
		}
		return s, s.openPostgres(ctx, o)
	}
	if o.Path == "" || o.Path == Memory {
		return s, s.openMemory(ctx, o)
	}
	if s.path, err = resolve(o.Path); err != nil {
		return nil, fmt.Errorf("open store %s: %w", o.Path, err)
	}
	if o.ReadOnly {
		return s, s.openReadOnly(ctx)
	}
	return s, s.openFile(ctx, o)
}

func (s *Store) openMemory(ctx context.Context, o Options) error {
	if o.ReadOnly {
		return errors.New("open store: a store in memory cannot be opened for reading only: name a file")
	}
	s.path = Memory
	db, err := connect(Memory, 1, writerParams(o.Durable))
	if err != nil {
		return explain(s.path, "open store", err)
	}
	s.write, s.read = db, db
	return s.ready(ctx)
}

// ready migrates the schema and prepares the most frequent writes. The migrations need
// not be durable one by one: the first write after them makes them so.
func (s *Store) ready(ctx context.Context) (err error) {
	if err := s.sync(ctx, false); err != nil {
		return err
	}
	if err := migrate(ctx, s.write, s.dialect, s.path, s.log); err != nil {
		return err
	}
	if err := s.sync(ctx, s.durable); err != nil {
		return err
	}
	if s.path == Memory { // the writer is the reader too
		s.statements, err = prepare(ctx, s.write, slices.Concat(budgetStatements, []string{sqlAddExecutions})...)
	} else if s.own, err = newConnection(ctx, s.write, budgetStatements...); err == nil {
		err = s.own.prepareMany(ctx, sqlAddExecutions)
	}
	if err != nil {
		return explain(s.path, "open store", err)
	}
	return nil
}

// sync sets whether commits of the writing connection are durable. A new connection
// does as [writerParams] say.
func (s *Store) sync(ctx context.Context, durable bool) error {
	mode := "NORMAL"
	if durable {
		mode = "FULL"
	}
	if _, err := s.write.ExecContext(ctx, "PRAGMA synchronous="+mode); err != nil {
		return explain(s.path, "open store", err)
	}
	return nil
}

func (s *Store) openFile(ctx context.Context, o Options) error {
	if err := createPrivate(s.path, s.log); err != nil {
		return fmt.Errorf("open store %s: %w", s.path, err)
	}
	var err error
	if s.lock, err = acquire(s.path); err != nil {
		return err
	}
	if s.write, err = connect(s.path, 1, writerParams(o.Durable)); err != nil {
		return explain(s.path, "open store", err)
	}
	if err := requireWAL(ctx, s.write, s.path); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.read, err = connect(s.path, readers, readerParams()); err != nil {
		return explain(s.path, "open store", err)
	}
	return nil
}

func (s *Store) openReadOnly(ctx context.Context) error {
	if _, err := os.Stat(s.path); err != nil {
		return fmt.Errorf("open store for reading: %w: it is made by the first start of toolgate", err)
	}
	var err error
	if s.read, err = connect(s.path, readers, readerParams()); err != nil {
		return explain(s.path, "open store", err)
	}
	return requireCurrent(ctx, s.read, s.dialect, s.path)
}

// Path returns where the store is: its absolute file without symbolic links, [Memory],
// or the address of a PostgreSQL database without password and parameters,
// postgres://user@host:port/database.
func (s *Store) Path() string { return s.path }

// Check reads the whole database and returns the first damage that it finds. The time
// grows with the size of the file. A PostgreSQL server checks its own files, so there
// Check only makes sure that it answers and has the schema of this build.
func (s *Store) Check(ctx context.Context) error {
	if s.read == nil {
		return ErrClosed
	}
	if err := s.absent.err(); err != nil {
		return err
	}
	if s.listen != nil {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return requireCurrent(ctx, s.read, s.dialect, s.path)
	}
	var report string
	if err := s.read.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&report); err != nil {
		return explain(s.path, "check store", err)
	}
	if report != "ok" {
		return fmt.Errorf("check store %s: %s: %s", s.path, report, damaged)
	}
	return nil
}

// View runs fn on one consistent state of the store. fn must not keep tx or call
// another method of the store. An error of fn is returned as it is. Without an earlier
// deadline in ctx a view ends after 10 s.
func (s *Store) View(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	if s.read == nil {
		return ErrClosed
	}
	if err := s.absent.err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	raw, err := s.read.BeginTx(ctx, s.dialect.reading())
	// After a restart of the server every idle connection fails once.
	for try := 0; try < readers && err != nil && s.dialect.retryable(err); try++ {
		raw, err = s.read.BeginTx(ctx, s.dialect.reading())
	}
	if err != nil {
		if s.writer.isClosed() {
			return fmt.Errorf("read store %s: %w", s.path, ErrClosed)
		}
		return explain(s.path, "read store", err)
	}
	defer raw.Rollback() //nolint:errcheck // nothing was written, so there is nothing to lose
	return s.explained("read store", fn(ctx, &Tx{raw: &pooled{Tx: raw}, dialect: s.dialect, readOnly: true}))
}

// Close commits the queued writes, ends [Store.Run] if it is running, and closes the
// files. Later calls return the result of the first.
func (s *Store) Close() error {
	if s.read == nil {
		return nil
	}
	s.closeOnce.Do(func() {
		s.writer.close()
		s.closeErr = s.release()
	})
	return s.closeErr
}

// release closes everything that is open. The reading connections go first: the writer
// must be the last, so that it merges the write-ahead log into the file.
func (s *Store) release() error {
	var errs []error
	if s.read != nil && s.read != s.write {
		errs = append(errs, s.read.Close())
	}
	errs = append(errs, s.statements.close(), s.own.close())
	for _, db := range [...]*sql.DB{s.direct, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close store %s: %w", s.path, err)
	}
	return nil
}

// resolve makes path absolute and follows its symbolic links, so that all names of a
// file lead to one lock.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	// The file and its folder may not exist yet.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs)), nil
	}
	return abs, nil
}

// errLinked refuses a file with several names. The lock and SQLite's write-ahead log
// belong to a name. Two processes that open a file by different names would each have
// their own, and undo each other's writes.
var errLinked = errors.New("it has another name, by a hard link, under which another toolgate could open it too: remove that link (find -samefile), or copy the file and name the copy")

// createPrivate makes the file and its folder accessible only to their owner, before
// SQLite would create the file with the process's umask. Files that SQLite adds inherit
// the mode.
func createPrivate(path string, log *slog.Logger) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create its folder: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file: name another path")
	}
	if n, err := links(f); err != nil {
		return fmt.Errorf("count its names: %w", err)
	} else if n > 1 {
		return errLinked
	}
	if exposed(info.Mode()) {
		if err := f.Chmod(0o600); err != nil {
			return fmt.Errorf("make it readable by its owner only: %w", err)
		}
		log.Warn("store was readable by others; its mode is now 0600",
			slog.String("path", path), slog.String("was", info.Mode().Perm().String()))
	}
	return nil
}
