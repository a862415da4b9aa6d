package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/filelock"
)

// Mode is what a log does about a failed write. The zero Mode is [Required].
type Mode string

const (
	// Required makes the error sticky: every entry and Healthy return it, and entries
	// are kept in memory, up to a limit, until Reopen.
	Required Mode = "required"
	// BestEffort counts lost entries and goes on.
	BestEffort Mode = "best_effort"
)

// Fsync is when written lines are synced, to survive a loss of power. The zero Fsync is
// [FsyncInterval].
type Fsync string

const (
	// FsyncInterval syncs at most once a second.
	FsyncInterval Fsync = "interval"
	// FsyncNone leaves it to the operating system.
	FsyncNone Fsync = "never"
	// FsyncAlways syncs before Begin, Append and End return; concurrent callers share
	// one sync.
	FsyncAlways Fsync = "always"
)

const (
	// flushAt is the buffer size at which Run is woken early, in bytes.
	flushAt = 64 << 10
	// keptBuffer is the size up to which the memory of a buffer is used again. A larger one was
	// for a moment when the disk was slow.
	keptBuffer = 4 * flushAt
	// maxBuffer is the buffer size at which callers write themselves. Twice that bounds
	// everything that waits while nothing can be written.
	maxBuffer = 1 << 20
	// flushEvery is how long an entry stays in the buffer at most.
	flushEvery = 100 * time.Millisecond
	// fsyncEvery is the interval of FsyncInterval.
	fsyncEvery = time.Second
	// keepEncoder bounds the pooled buffers.
	keepEncoder = 16 << 10
)

// ErrClosed is returned after Close for every entry, and by the zero Log.
var ErrClosed = errors.New("the audit log is closed")

// Options configure the error handling, syncing and rotation of a log.
type Options struct {
	Mode   Mode
	Fsync  Fsync
	Logger *slog.Logger // nil discards

	// Key signs the chain. It is required.
	Key Key
	// Earlier are previous keys, needed to recognise old files before they are removed.
	Earlier []Key
	// Replica names the owner of the chain.
	Replica string
	// RotateSize and RotateAge limit a file: it is rotated before it grows larger, in
	// bytes, or when its first line is older. Zero means never.
	RotateSize int64
	RotateAge  time.Duration
	// Keep is how long rotated files are kept; zero means for ever.
	Keep time.Duration
	// Anchor stores the head of the chain where someone who can write the file cannot
	// change it; nil stores it nowhere. Run calls it every 10 s while lines are added,
	// and Close once.
	Anchor func(context.Context, Head) error
}

// Stats are counters since Open.
type Stats struct {
	Entries  uint64 // accepted
	Written  uint64 // passed to the operating system
	Lost     uint64 // dropped
	Repaired uint64 // incomplete lines of a crash that were closed
	Unknown  uint64 // calls of an earlier run that were closed as unknown
}

// Log is an open audit log. Its methods are safe for concurrent use. The zero value
// returns [ErrClosed].
type Log struct {
	path     string
	opts     Options
	log      *slog.Logger
	discard  bool
	fileLock *filelock.Lock // set by Open; nil without a lock
	wake     chan struct{}  // wakes Run
	full     chan struct{}  // the buffer has passed flushAt
	rotated  chan struct{}  // a file was rotated

	// mu guards the buffer and its waiting callers; it is never held during a write to
	// the file.
	mu      sync.Mutex
	open    bool
	buf     []byte
	entries uint64 // in buf
	woken   bool   // Run will write buf within flushEvery
	groups  groups

	// out guards the file, the chain and the pending lines; it is locked before mu.
	out         sync.Mutex
	file        file
	pending     []byte // lines from before buf that are not written yet, without their numbers
	queued      uint64 // entries in pending
	synced      bool   // everything written is synced
	place       place  // position in the file
	chain       *chain
	own         Mark          // the common part of all marks of this run
	sealed      []byte        // lines ready for the file
	marked      uint64        // lost entries that a mark has reported
	checked     time.Time     // when the file was last seen at its path
	retryRotate time.Time     // when to retry the rotation of a file that could not be rotated
	anchored    atomic.Uint64 // number of the last anchored line

	failed   atomic.Pointer[error] // the sticky error
	kept     atomic.Int64          // bytes of pending while there is a sticky error
	accepted atomic.Uint64
	written  atomic.Uint64
	lost     atomic.Uint64
	repaired atomic.Uint64
	unknown  uint64 // set by Open
}

// place is the position of a log in its file.
type place struct {
	mark  bool      // a mark is due
	junk  int64     // bytes after the last line that are not of the chain
	cut   bool      // the last of them is an incomplete line
	size  int64     // of the file
	since time.Time // time of its first line
}

// file is what a log needs of its file.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// encoder is a buffer for one entry; a usual entry fits without growing it.
type encoder struct {
	line  []byte
	usual [2048]byte
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// Open opens the log at path for appending. If it does not exist, it is created with
// mode 0600, its folder with 0700. The chain continues after the last line of the file
// or of the rotated files. Open closes an incomplete line of a crash with a newline and
// counts it in [Stats.Repaired]. It ends calls without an end as unknown. When another
// process writes the log, Open returns an [*InUseError] and changes nothing.
//
// Open starts no goroutine; see [Log.Run]. The caller must [Log.Close] it.
func Open(path string, o Options) (*Log, error) {
	if len(o.Key.Secret) < 32 {
		return nil, fmt.Errorf("open audit log %s: its chain needs a key of at least 32 bytes", path)
	}
	l := newLog(path, o)
	f, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("open audit log %s: %w", path, err)
	}
	l.file, l.path = f, resolved(path)
	if err := l.begin(f); err != nil {
		if _, inUse := errors.AsType[*InUseError](err); !inUse {
			err = fmt.Errorf("open audit log %s: %w", path, err)
		}
		return nil, errors.Join(err, f.Close(), l.unlock())
	}
	l.pruneNow(time.Now())
	return l, nil
}

// begin locks the log and continues it.
func (l *Log) begin(f *os.File) error {
	if err := l.lock(); err != nil {
		return err
	}
	if err := l.resume(f); err != nil {
		return fmt.Errorf("read what it has: %w", err)
	}
	if err := l.put(); err != nil {
		return fmt.Errorf("write its first line: %w", err)
	}
	return nil
}

// Discard returns a log that drops all entries, for configurations without an audit
// file.
func Discard() *Log {
	l := newLog("", Options{Mode: BestEffort})
	l.discard = true
	return l
}

func newLog(path string, o Options) *Log {
	o.Mode, o.Fsync = cmp.Or(o.Mode, Required), cmp.Or(o.Fsync, FsyncInterval)
	l := &Log{path: path, opts: o, log: o.Logger, open: true, synced: true}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.wake, l.full, l.rotated = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	l.groups.init(&l.mu)
	l.chain = newChain(o.Key)
	l.own = Mark{Replica: o.Replica, Chain: rand.Text(), Run: rand.Text(), Key: o.Key.ID}
	return l
}

// Begin adds the line that a call begins. In required mode the operating system has it
// when Begin returns, so that it survives a crash of this process; concurrent callers
// share one write. With FsyncAlways it is synced. An error means that it is not
// written: the call must not be made. In best-effort mode Begin does not wait unless
// FsyncAlways is set, and returns only [ErrClosed]. The log does not keep e.
func (l *Log) Begin(e *Entry) error {
	e.Event = EventBegin
	err := l.add(e, true)
	e.Event = EventEnd
	return err
}

// Append adds the only entry of a call that did not begin, or of a change. It is as
// safe as one of [Log.Begin]. An entry that cannot be written is kept for [Log.Reopen]
// while there is room.
func (l *Log) Append(e *Entry) error { return l.add(e, true) }

// End adds the line that ends a call. It waits for the disk only with FsyncAlways.
// Otherwise [Log.Run] writes the line within 100 ms. If the process is killed before,
// the next [Open] ends the call with [OutcomeUnknown]. An entry that cannot be written
// is kept as by [Log.Append].
func (l *Log) End(e *Entry) error { return l.add(e, false) }

// add adds an entry. With atOnce it is written when add returns.
func (l *Log) add(e *Entry, atOnce bool) error {
	if l.discard {
		l.accepted.Add(1)
		return nil
	}
	enc := encoders.Get().(*encoder)
	if enc.line == nil {
		enc.line = enc.usual[:0]
	}
	enc.line = appendEntry(enc.line[:0], e)
	size, group, err := l.buffer(enc.line)
	if cap(enc.line) > keepEncoder {
		enc.line = nil
	}
	encoders.Put(enc)
	switch {
	case err != nil:
		return err
	case l.opts.Fsync == FsyncAlways, l.opts.Mode == Required && (atOnce || size >= maxBuffer):
		l.await(group)
	case size >= maxBuffer && l.out.TryLock(): // best effort does not wait
		if l.file != nil {
			l.write(false)
		}
		l.release()
	}
	return l.Healthy()
}

// buffer adds one line and returns the buffer's size and group.
func (l *Log) buffer(line []byte) (size int, group uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return 0, 0, ErrClosed
	}
	group = l.groups.filling
	more := len(l.buf) + len(line)
	if l.opts.Mode == Required {
		more += int(l.kept.Load())
	}
	if more > 2*maxBuffer && (l.opts.Mode == BestEffort || l.failed.Load() != nil) {
		// The file cannot be written now, so new entries cannot be kept. (In required
		// mode without an error they can: the caller waits for the file next.)
		l.lost.Add(1)
		return len(l.buf), group, nil
	}
	before := len(l.buf)
	l.buf = append(l.buf, line...)
	l.entries++
	l.accepted.Add(1)
	if !l.woken {
		l.woken = true
		signal(l.wake)
	}
	if before < flushAt && len(l.buf) >= flushAt {
		signal(l.full)
	}
	return len(l.buf), group, nil
}

// Path returns the path of the log's file; empty for a log that drops all entries.
func (l *Log) Path() string { return l.path }

// Healthy returns the sticky error of a log in required mode, or nil. It is cheap
// enough to call before every call.
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
	return Stats{Entries: l.accepted.Load(), Written: l.written.Load(), Lost: l.lost.Load(), Repaired: l.repaired.Load(), Unknown: l.unknown}
}

// Reopen closes the file and opens the path again, after an external rotation moved the
// file away or an error was repaired. It first writes the entries kept in memory. If
// all of them are written, the sticky error is cleared.
func (l *Log) Reopen() error {
	if l.discard {
		return nil
	}
	l.out.Lock()
	defer l.release()
	if l.file == nil {
		return ErrClosed
	}
	f, err := openFile(l.path)
	if err != nil {
		return fmt.Errorf("reopen audit log %s: %w", l.path, err)
	}
	if l.failed.Load() == nil {
		l.flushTo(true) // to the old file: rotation cuts between lines
	}
	if err := l.useFile(f); err != nil {
		return fmt.Errorf("reopen audit log %s: %w", l.path, err)
	}
	// Write the kept lines before more are added, to stay within the limit. The sticky
	// error stays until both are written.
	if err := l.put(); err != nil {
		l.failedWrite("write", err)
		return l.Healthy()
	}
	l.queueBuffer()
	l.writePending(true)
	return l.Healthy()
}

// Close writes and syncs the buffer and closes the file. In required mode it returns
// the sticky error, if there is one. Later entries are refused. A second Close does
// nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	wasOpen := l.open
	l.open = false
	l.mu.Unlock()
	if !wasOpen || l.discard {
		return nil
	}
	l.out.Lock()
	defer l.release()
	l.write(l.opts.Fsync != FsyncNone)
	if l.queued > 0 {
		l.lost.Add(l.queued)
		l.queued, l.pending = 0, nil
	}
	l.anchorNow(l.head())
	err := errors.Join(l.file.Close(), l.unlock())
	l.file = nil
	if err != nil {
		err = fmt.Errorf("close audit log %s: %w", l.path, err)
	}
	return errors.Join(l.Healthy(), err)
}

// signal sends to c without blocking.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
