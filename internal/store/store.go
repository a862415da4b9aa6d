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

// Memory is the [Options.Path] of a store that lives and ends with its
// process.
const Memory = ":memory:"

// readers bounds the connections that read beside the writer. Reads are short
// and mostly at start; more would only cost memory.
const readers = 4

// readTimeout bounds one read of a caller that set no earlier deadline.
const readTimeout = 10 * time.Second

var (
	// ErrClosed is returned for everything asked of a closed store, and of
	// the zero Store.
	ErrClosed = errors.New("the store is closed")
	// ErrReadOnly is returned for a write to a store opened read-only.
	ErrReadOnly = errors.New("the store was opened for reading only")
	// ErrQueueFull is returned by [Store.Enqueue] when the queue of writes
	// has no place left. Nothing was written.
	ErrQueueFull = errors.New("the queue of writes to the store is full")
	// ErrTooLarge is returned for a value above its documented limit.
	ErrTooLarge = errors.New("too large to store")
	// ErrTooMany is returned for one more of what is limited in number.
	ErrTooMany = errors.New("too many in the store")
	// ErrUncertain is returned for a write whose commit was sent to
	// PostgreSQL and not answered: it may have happened or not. What must
	// happen at most once counts it as done, what guards as refused.
	ErrUncertain = errors.New("it is not known whether this was written")
)

// Options say which store to open and how durable it is.
type Options struct {
	// URL names a PostgreSQL database that several processes may share:
	// postgres://user:password@host:5432/database, with the parameters of
	// libpq (sslmode, search_path, several hosts and so on). What it leaves
	// out comes from PGPASSWORD and the other variables of libpq. It is
	// never printed. Path must then be empty.
	//
	// The database's encoding must be UTF8, and the user must be able to
	// create tables in its current schema. A store uses up to 7 connections.
	URL string

	// Path names the database file of SQLite. It is created with mode 0600, its folder
	// with 0700, when absent. Empty or [Memory] is a store in memory.
	Path string

	// Durable makes every commit survive a loss of power (synchronous=FULL),
	// at the price of an fsync per batch. Without it a commit survives the
	// end of the process, however sudden, but the last ones may be lost with
	// the power (synchronous=NORMAL). PostgreSQL is durable unless it was
	// told otherwise; Durable then overrules that (synchronous_commit).
	Durable bool

	// ReadOnly opens an existing store beside the process that writes it,
	// without the lock and without changing its schema. Every write then answers [ErrReadOnly].
	ReadOnly bool

	// Await returns a store also while no PostgreSQL server answers at URL, or
	// one that is just starting. [Store.Run] then opens it as soon as it can;
	// until then everything answers [ErrAway]. A server that refuses, as for a
	// wrong password, is an error of [Open] all the same; it is none any more
	// once that has returned. It does nothing for other stores.
	Await bool

	// Queue is how many writes may wait for the writer; 0 means 4096.
	Queue int

	// Logger receives what nobody waits for; nil discards it.
	Logger *slog.Logger
}

// Store is an open store. Its methods are safe for concurrent use. The zero
// value refuses everything with [ErrClosed].
type Store struct {
	path    string // as shown to people
	log     *slog.Logger
	dialect dialect
	lock    *filelock.Lock // of a file that is written; else nil
	write   *sql.DB        // nil when read-only; one connection
	read    *sql.DB        // the same as write in memory
	direct  *sql.DB        // for statements that commit by themselves; nil without PostgreSQL
	durable bool           // see [Options.Durable]

	own        *connection // that writes a file; else nil
	statements statements  // of write, in memory

	// listen makes a connection that can be notified; nil without PostgreSQL.
	listen func(ctx context.Context) (*pgx.Conn, error)

	absent   absence
	writer   writer
	watchers watchers
	pollEach time.Duration // how often a Watch reads the generations

	closeOnce sync.Once
	closeErr  error
}

// Open opens the store that o names, creates it when it is absent, and brings
// its schema up to date. Besides an error of the file system it refuses a
// file that another process has open for writing, that is damaged, that is
// not a toolgate store, or whose schema is newer than this build; the error
// says which and what to do. A PostgreSQL database must be there, and answer:
// of several processes that start at once one makes or migrates its tables,
// and the others wait for it. ctx bounds the opening only.
//
// Open starts no goroutine of its own; see [Store.Run]. The caller must
// [Store.Close] what it opened.
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

// ready brings the schema up to date and prepares what is written most. The steps
// of the schema need not survive a loss of power one by one: the first write after
// them takes them along.
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
	texts := slices.Concat(budgetStatements, []string{sqlAddExecutions})
	if s.path == Memory { // what writes it reads it as well
		s.statements, err = prepare(ctx, s.write, texts...)
	} else {
		s.own, err = newConnection(ctx, s.write, texts...)
	}
	if err != nil {
		return explain(s.path, "open store", err)
	}
	return nil
}

// sync sets whether commits of the writing connection survive a loss of power. A
// connection that takes its place does as [writerParams] say.
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

// Path says where the store is: its file, absolute and without symbolic
// links, [Memory], or the address of a PostgreSQL database without password
// and parameters, postgres://user@host:port/database.
func (s *Store) Path() string { return s.path }

// Check reads the whole database and returns the first damage that it finds.
// It takes time in proportion to the size of the file. A PostgreSQL server
// looks after its own files: there Check makes sure that it answers and that
// the schema is the one of this build.
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

// View runs fn on one consistent state of the store. fn must not keep tx, and
// must not call another method of the store. An error of fn is returned as it
// is. Without an earlier deadline in ctx a view ends after 10 s.
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

// Close commits what is queued, ends [Store.Run] if it is running, and closes
// the files. Later calls return what the first one did.
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

// release closes whatever is open. The reading connections go first, so that
// the last one to close is the writer, which folds the write-ahead log back
// into the file.
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

// resolve makes path absolute and follows the symbolic links in it, so that
// two names of one file meet at one lock.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	// The file may be about to be created, and its folder, too.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs)), nil
	}
	return abs, nil
}

// errLinked refuses a file that has several names. The lock and SQLite's log of what it
// has not yet written to the file go by the name: of two that open it by different names
// each would have its own, and one would undo what the other wrote.
var errLinked = errors.New("it has another name, by a hard link, under which another toolgate could open it too: remove that link (find -samefile), or copy the file and name the copy")

// createPrivate makes the file and its folder readable by their owner only,
// before SQLite would make the file with the process's umask. The files that
// SQLite puts beside it take their mode from it.
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
