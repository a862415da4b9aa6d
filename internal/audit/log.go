package audit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Mode says what a log does about a write that fails.
type Mode int

const (
	// Required makes an error sticky: Append and Healthy return it, and
	// entries are kept in memory, within a bound, until Reopen.
	Required Mode = iota
	// BestEffort counts what is lost and goes on.
	BestEffort
)

// Fsync says when written lines are made to survive a loss of power.
type Fsync int

const (
	// FsyncInterval is at most once a second.
	FsyncInterval Fsync = iota
	// FsyncNone leaves it to the operating system.
	FsyncNone
	// FsyncAlways is before Append returns; callers at the same time share
	// one.
	FsyncAlways
)

const (
	// flushAt is how much is buffered before Run is woken early, in bytes.
	flushAt = 64 << 10
	// maxBuffer is how much is buffered before Append writes by itself; twice
	// that is the bound while nothing can be written.
	maxBuffer = 1 << 20
	// flushEvery is how long an entry stays in the buffer at most.
	flushEvery = 100 * time.Millisecond
	// fsyncEvery is the interval of FsyncInterval.
	fsyncEvery = time.Second
	// keepEncoder bounds the buffers that are kept for the next entry.
	keepEncoder = 16 << 10
)

// ErrClosed is returned by Append after Close, and by the zero Log.
var ErrClosed = errors.New("the audit log is closed")

// Options say how a log treats errors and power.
type Options struct {
	Mode   Mode
	Fsync  Fsync
	Logger *slog.Logger // nil discards
}

// Stats are counters since Open.
type Stats struct {
	Entries  uint64 // accepted by Append
	Written  uint64 // handed to the operating system
	Lost     uint64 // given up
	Repaired uint64 // half lines of a crash that were closed
}

// Log is an open audit log. Its methods are safe for concurrent use. The zero
// value refuses with [ErrClosed].
type Log struct {
	path    string
	opts    Options
	log     *slog.Logger
	discard bool
	wake    chan struct{} // the buffer got its first entry
	full    chan struct{} // the buffer passed flushAt

	// mu guards the buffer that Append fills; it is never held across a
	// write to the file.
	mu      sync.Mutex
	open    bool
	buf     []byte
	entries uint64 // in buf

	// out guards the file and what is being written; it is taken before mu.
	out     sync.Mutex
	file    file
	pending []byte // not yet written, from before buf
	queued  uint64 // entries in pending
	torn    bool   // the file ends inside a line
	synced  bool   // everything written is on disk

	failed   atomic.Pointer[error] // the sticky error
	accepted atomic.Uint64
	written  atomic.Uint64
	lost     atomic.Uint64
	repaired atomic.Uint64
}

// file is what a log needs of its file.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// encoder is a buffer for one entry; the usual entry fits without growing.
type encoder struct {
	line  []byte
	usual [2048]byte
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// Open opens the log at path for appending; it is created with mode 0600, its
// folder with 0700, when absent. If the last line has no end, because a crash
// cut it, it is closed with a newline and counted in [Stats.Repaired]: one
// line of the file is then not JSON.
//
// Open starts no goroutine; see [Log.Run]. The caller must [Log.Close] it.
func Open(path string, o Options) (*Log, error) {
	l := newLog(path, o)
	f, torn, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("open audit log %s: %w", path, err)
	}
	l.file, l.torn = f, torn
	if torn {
		if err := l.closeLine(); err != nil {
			return nil, errors.Join(fmt.Errorf("open audit log %s: close its half last line: %w", path, err), f.Close())
		}
	}
	return l, nil
}

// Discard returns a log that accepts entries and keeps none, for a
// configuration without an audit file.
func Discard() *Log {
	l := newLog("", Options{Mode: BestEffort})
	l.discard = true
	return l
}

func newLog(path string, o Options) *Log {
	l := &Log{path: path, opts: o, log: o.Logger, open: true, synced: true}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.wake, l.full = make(chan struct{}, 1), make(chan struct{}, 1)
	return l
}

// Append adds e, which it does not keep. With FsyncAlways it returns when e is
// on disk; else when e is buffered, and [Log.Run] writes it within 100 ms. In
// required mode it returns the error of an earlier write, or of this one; the
// entry is then kept for [Log.Reopen] while there is room. In best-effort mode
// it returns only [ErrClosed].
func (l *Log) Append(e *Entry) error {
	if l.discard {
		l.accepted.Add(1)
		return nil
	}
	enc := encoders.Get().(*encoder)
	if enc.line == nil {
		enc.line = enc.usual[:0]
	}
	enc.line = appendEntry(enc.line[:0], e)
	size, err := l.buffer(enc.line)
	if cap(enc.line) > keepEncoder {
		enc.line = nil
	}
	encoders.Put(enc)
	switch {
	case err != nil:
		return err
	case l.opts.Fsync == FsyncAlways:
		l.flush(true)
	case size < maxBuffer:
	case l.opts.Mode == Required:
		l.flush(false)
	case l.out.TryLock(): // best effort waits for nobody
		if l.file != nil {
			l.write(false)
		}
		l.out.Unlock()
	}
	return l.Healthy()
}

// buffer adds one line and returns how much is buffered.
func (l *Log) buffer(line []byte) (size int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return 0, ErrClosed
	}
	if len(l.buf)+len(line) > 2*maxBuffer && (l.opts.Mode == BestEffort || l.failed.Load() != nil) {
		// The file takes nothing now: what comes cannot be kept. (In required
		// mode without an error it can: its caller waits for the file next.)
		l.lost.Add(1)
		return len(l.buf), nil
	}
	before := len(l.buf)
	l.buf = append(l.buf, line...)
	l.entries++
	l.accepted.Add(1)
	if before == 0 {
		signal(l.wake)
	}
	if before < flushAt && len(l.buf) >= flushAt {
		signal(l.full)
	}
	return len(l.buf), nil
}

// Healthy returns the sticky error of a log in required mode, or nil. It is
// cheap enough to be asked before every call.
func (l *Log) Healthy() error {
	if l.opts.Mode != Required {
		return nil
	}
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Stats returns the counters of the log.
func (l *Log) Stats() Stats {
	return Stats{Entries: l.accepted.Load(), Written: l.written.Load(), Lost: l.lost.Load(), Repaired: l.repaired.Load()}
}

// Reopen closes the file and opens the path anew: after the file was moved
// away by a rotation, or after an error was repaired. What was kept in memory
// is written first, and if all of it can be, the sticky error is gone.
func (l *Log) Reopen() error {
	if l.discard {
		return nil
	}
	l.out.Lock()
	defer l.out.Unlock()
	if l.file == nil {
		return ErrClosed
	}
	f, torn, err := openFile(l.path)
	if err != nil {
		return fmt.Errorf("reopen audit log %s: %w", l.path, err)
	}
	if l.failed.Load() == nil {
		l.write(true) // to the old file: rotation cuts between lines
	}
	old := l.file
	l.file, l.torn = f, torn
	l.failed.Store(nil)
	l.write(true)
	if err := old.Close(); err != nil {
		l.log.Warn("closing the audit log that was replaced", slog.Any("error", err))
	}
	return l.Healthy()
}

// Close writes and syncs what is buffered and closes the file. In required
// mode it returns the sticky error, if there is one. Append refuses from then
// on. A second Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	wasOpen := l.open
	l.open = false
	l.mu.Unlock()
	if !wasOpen || l.discard {
		return nil
	}
	l.out.Lock()
	defer l.out.Unlock()
	l.write(l.opts.Fsync != FsyncNone)
	if l.queued > 0 {
		l.lost.Add(l.queued)
		l.queued, l.pending = 0, nil
	}
	err := l.file.Close()
	l.file = nil
	if err != nil {
		err = fmt.Errorf("close audit log %s: %w", l.path, err)
	}
	return errors.Join(l.Healthy(), err)
}

// openFile opens the file at path and says whether it ends inside a line.
func openFile(path string) (f *os.File, torn bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, fmt.Errorf("create its folder: %w", err)
	}
	// Reading is for the last byte only.
	f, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	if torn, err = inspect(f); err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, torn, nil
}

func inspect(f *os.File) (torn bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, errors.New("it is not a regular file: name another path (toolgate.audit.path)")
	}
	if info.Mode().Perm()&0o077 != 0 {
		// On systems without such modes this changes nothing.
		if err := f.Chmod(0o600); err != nil {
			return false, fmt.Errorf("make it readable by its owner only: %w", err)
		}
	}
	if info.Size() == 0 {
		return false, nil
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// signal wakes whoever waits for c, now or next time.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
