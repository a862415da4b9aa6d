package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
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
)

// Options say which store to open and how durable it is.
type Options struct {
	// Path names the database file. It is created with mode 0600, its folder
	// with 0700, when absent. Empty or [Memory] is a store in memory.
	Path string

	// Durable makes every commit survive a loss of power (synchronous=FULL),
	// at the price of an fsync per batch. Without it a commit survives the
	// end of the process, however sudden, but the last ones may be lost with
	// the power (synchronous=NORMAL).
	Durable bool

	// ReadOnly opens an existing store beside the process that writes it,
	// without the lock. Every write then answers [ErrReadOnly].
	ReadOnly bool

	// Queue is how many writes may wait for the writer; 0 means 4096.
	Queue int

	// Logger receives what nobody waits for; nil discards it.
	Logger *slog.Logger
}

// Store is an open store. Its methods are safe for concurrent use. The zero
// value refuses everything with [ErrClosed].
type Store struct {
	path   string // as shown to people
	log    *slog.Logger
	lock   *fileLock // nil in memory and when read-only
	write  *sql.DB   // nil when read-only; one connection
	read   *sql.DB   // the same as write in memory
	memory bool

	writer writer

	closeOnce sync.Once
	closeErr  error
}

// Open opens the store that o names, creates it when it is absent, and brings
// its schema up to date. Besides an error of the file system it refuses a
// file that another process has open for writing, that is damaged, that is
// not a toolgate store, or whose schema is newer than this build; the error
// says which and what to do. ctx bounds the opening only.
//
// Open starts no goroutine of its own; see [Store.Run]. The caller must
// [Store.Close] what it opened.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	s := &Store{path: o.Path, log: o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.writer.init(o.Queue)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()

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
	s.path, s.memory = Memory, true
	db, err := connect(Memory, 1, writerParams(o.Durable))
	if err != nil {
		return explain(s.path, "open store", err)
	}
	s.write, s.read = db, db
	return migrate(ctx, s.write, s.path, s.log)
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
	if err := migrate(ctx, s.write, s.path, s.log); err != nil {
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
	return requireCurrent(ctx, s.read, s.path)
}

// Path returns the file of the store, absolute and without symbolic links,
// or [Memory].
func (s *Store) Path() string { return s.path }

// Check reads the whole database and returns the first damage that it finds.
// It takes time in proportion to the size of the file.
func (s *Store) Check(ctx context.Context) error {
	if s.read == nil {
		return ErrClosed
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
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	// In memory the one connection is shared with the writer, whose
	// transactions are immediate: a read-only one takes no write lock.
	raw, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		if s.writer.isClosed() {
			return fmt.Errorf("read store %s: %w", s.path, ErrClosed)
		}
		return explain(s.path, "read store", err)
	}
	defer raw.Rollback() //nolint:errcheck // nothing was written, so there is nothing to lose
	return s.explained("read store", fn(ctx, &Tx{raw: raw, readOnly: true}))
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
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
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
	if exposed(info.Mode()) {
		if err := f.Chmod(0o600); err != nil {
			return fmt.Errorf("make it readable by its owner only: %w", err)
		}
		log.Warn("store was readable by others; its mode is now 0600",
			slog.String("path", path), slog.String("was", info.Mode().Perm().String()))
	}
	return nil
}
