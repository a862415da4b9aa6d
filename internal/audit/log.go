package audit

import (
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

// Mode says what a log does about a write that fails.
type Mode int

const (
	// Required makes an error sticky: it is returned for every entry and by
	// Healthy, and entries are kept in memory, within a bound, until Reopen.
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
	// FsyncAlways is before Begin, Append and End return; callers at the same
	// time share one.
	FsyncAlways
)

const (
	// flushAt is how much is buffered before Run is woken early, in bytes.
	flushAt = 64 << 10
	// maxBuffer is how much is buffered before whoever adds to it writes; twice
	// that is the bound of all that waits while nothing can be written.
	maxBuffer = 1 << 20
	// flushEvery is how long an entry stays in the buffer at most.
	flushEvery = 100 * time.Millisecond
	// fsyncEvery is the interval of FsyncInterval.
	fsyncEvery = time.Second
	// keepEncoder bounds the buffers that are kept for the next entry.
	keepEncoder = 16 << 10
)

// ErrClosed is returned after Close for every entry, and by the zero Log.
var ErrClosed = errors.New("the audit log is closed")

// Options say how a log treats errors, power and age.
type Options struct {
	Mode   Mode
	Fsync  Fsync
	Logger *slog.Logger // nil discards

	// Key signs the chain. It is required.
	Key Key
	// Earlier signed lines before: files that they signed are known when they are
	// old enough to be removed.
	Earlier []Key
	// Replica names whose chain it is.
	Replica string
	// RotateSize and RotateAge are when a file is put aside and the next one
	// begun: when it would be larger, in bytes, or its first line is older. Zero
	// is never.
	RotateSize int64
	RotateAge  time.Duration
	// Keep is how long files that were put aside stay; zero is for ever.
	Keep time.Duration
	// Anchor keeps the head of the chain where whoever can write the file
	// cannot; nil keeps it nowhere. Run calls it every 10 s while lines are
	// added, and Close once.
	Anchor func(context.Context, Head) error
}

// Stats are counters since Open.
type Stats struct {
	Entries  uint64 // accepted
	Written  uint64 // handed to the operating system
	Lost     uint64 // given up
	Repaired uint64 // half lines of a crash that were closed
	Unknown  uint64 // calls of an earlier run that were closed as unknown
}

// Log is an open audit log. Its methods are safe for concurrent use. The zero
// value refuses with [ErrClosed].
type Log struct {
	path    string
	opts    Options
	log     *slog.Logger
	discard bool
	held    *filelock.Lock // set by Open; nil where there can be none
	wake    chan struct{}  // there is something that Run has to see to
	full    chan struct{}  // the buffer passed flushAt
	aside   chan struct{}  // a file was put aside

	// mu guards the buffer and who waits for it; it is never held across a
	// write to the file.
	mu      sync.Mutex
	open    bool
	buf     []byte
	entries uint64 // in buf
	woken   bool   // Run sees to what is in buf within flushEvery
	groups  groups

	// out guards the file, the chain and what is being written; it is taken
	// before mu.
	out      sync.Mutex
	file     file
	pending  []byte // not yet written, from before buf; without their numbers
	queued   uint64 // entries in pending
	synced   bool   // everything written is on disk
	place    place  // in the file
	chain    *chain
	own      Mark          // what is the same in all marks of this run
	sealed   []byte        // what is handed to the file
	marked   uint64        // lost entries of which a mark tells
	looked   time.Time     // when it was last seen that the file is still at the path
	stuck    time.Time     // until when a file that could not be put aside is not tried again
	anchored atomic.Uint64 // number of the line that was anchored last

	failed   atomic.Pointer[error] // the sticky error
	kept     atomic.Int64          // bytes of pending, as long as there is a sticky error
	accepted atomic.Uint64
	written  atomic.Uint64
	lost     atomic.Uint64
	repaired atomic.Uint64
	unknown  uint64 // set by Open
}

// place is where a log is in its file.
type place struct {
	mark  bool      // a mark is due
	junk  int64     // bytes behind the last line that are none of the chain
	cut   bool      // the last of them has no end
	size  int64     // of the file
	since time.Time // its first line
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
// folder with 0700, when absent. The chain goes on behind the last line that is
// there, in the file or in those that were put aside. A half line that a crash
// left is closed with a newline and counted in [Stats.Repaired], and calls that
// had begun and not ended get an end whose outcome is unknown. Where another
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

// begin takes the log for this process and goes on with it.
func (l *Log) begin(f *os.File) error {
	if err := l.lock(); err != nil {
		return err
	}
	if err := l.goOn(f); err != nil {
		return fmt.Errorf("read what it has: %w", err)
	}
	if err := l.put(); err != nil {
		return fmt.Errorf("write its first line: %w", err)
	}
	return nil
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
	l.wake, l.full, l.aside = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	l.groups.init(&l.mu)
	l.chain = newChain(o.Key)
	l.own = Mark{Replica: o.Replica, Chain: rand.Text(), Run: rand.Text(), Key: o.Key.ID}
	return l
}

// Begin adds the line that a call begins. In required mode the operating system has
// it when Begin returns, so that it outlives this process, whatever ends that; callers
// at the same time share one write. With FsyncAlways it is on disk. An error says that
// it is not: the call must not be made. In best-effort mode Begin waits for nobody
// unless FsyncAlways says so, and returns only [ErrClosed]. The log does not keep e.
func (l *Log) Begin(e *Entry) error {
	e.Event = EventBegin
	err := l.add(e, true)
	e.Event = EventEnd
	return err
}

// Append adds an entry that has no other line: of a call that did not begin, or of a
// change. It is as safe as what [Log.Begin] adds. An entry that cannot be written is
// kept for [Log.Reopen] while there is room.
func (l *Log) Append(e *Entry) error { return l.add(e, true) }

// End adds the line that ends a call which began. Only with FsyncAlways does it wait
// for the disk: else [Log.Run] writes the line within 100 ms, and where the process is
// killed before, the next [Open] ends the call with [OutcomeUnknown]. An entry that
// cannot be written is kept as by [Log.Append].
func (l *Log) End(e *Entry) error { return l.add(e, false) }

// add adds an entry; what is relied on at once is written when it returns.
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
	case size >= maxBuffer && l.out.TryLock(): // best effort waits for nobody
		if l.file != nil {
			l.write(false)
		}
		l.release()
	}
	return l.Healthy()
}

// buffer adds one line and returns how much is buffered, and in which group.
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
		// The file takes nothing now: what comes cannot be kept. (In required
		// mode without an error it can: its caller waits for the file next.)
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

// Path is where the file of the log is, or is to be; empty for one that keeps none.
func (l *Log) Path() string { return l.path }

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
	return Stats{Entries: l.accepted.Load(), Written: l.written.Load(), Lost: l.lost.Load(), Repaired: l.repaired.Load(), Unknown: l.unknown}
}

// Reopen closes the file and opens the path anew: after the file was moved
// away by a rotation, or after an error was repaired. What was kept in memory
// is written first, and if all of it can be, the sticky error is gone.
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
	if err := l.adopt(f); err != nil {
		return fmt.Errorf("reopen audit log %s: %w", l.path, err)
	}
	// What is kept is written before more is taken to it, so that it stays within its
	// bound. The sticky error stays until both are.
	if err := l.put(); err != nil {
		l.broke("write", err)
		return l.Healthy()
	}
	l.take()
	l.settle(true)
	return l.Healthy()
}

// Close writes and syncs what is buffered and closes the file. In required
// mode it returns the sticky error, if there is one. Entries are refused from then
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

// signal wakes whoever waits for c, now or next time.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
