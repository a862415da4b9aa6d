package audit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Run writes what Append buffers, at most 100 ms later, until ctx ends; then
// it writes what is left and returns nil. Entries that come after are written
// by [Log.Close]. A log is idle while nothing is appended.
func (l *Log) Run(ctx context.Context) error {
	if !l.discard && l.wake == nil {
		return ErrClosed
	}
	var due, sync <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			l.flush(l.opts.Fsync != FsyncNone)
			return nil
		case <-l.wake:
			if due == nil {
				due = time.After(flushEvery)
			}
			continue
		case <-l.full:
			due = nil
			l.flush(false)
		case <-due:
			due = nil
			l.flush(false)
		case <-sync:
			sync = nil
			l.flush(true)
			continue
		}
		if sync == nil && l.opts.Fsync == FsyncInterval {
			sync = time.After(fsyncEvery)
		}
	}
}

// flush writes what is buffered, unless an error forbids it, and syncs if
// told to. Callers at the same time share one write: the second finds its
// entry written when it gets its turn.
func (l *Log) flush(sync bool) {
	if l.discard {
		return
	}
	l.out.Lock()
	defer l.out.Unlock()
	if l.file == nil || l.failed.Load() != nil && l.opts.Mode == Required {
		return
	}
	l.write(sync)
}

// write moves the buffer to the file. The caller holds out.
func (l *Log) write(sync bool) {
	l.take()
	if l.failed.Load() != nil && l.opts.Mode == Required {
		return
	}
	if err := l.put(); err != nil {
		l.broke("write", err)
		return
	}
	if sync && !l.synced {
		if err := l.file.Sync(); err != nil {
			l.broke("sync", err)
			return
		}
		l.synced = true
	}
	if l.failed.Swap(nil) != nil { // best effort: the sticky error returns above
		l.log.Info("the audit log can be written again", slog.Uint64("entries_lost", l.lost.Load()))
	}
}

// take moves the buffer behind what is pending.
func (l *Log) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		l.pending, l.buf = l.buf, l.pending[:0] // swap, so that both are used again
	} else {
		l.pending = append(l.pending, l.buf...)
		l.buf = l.buf[:0]
	}
	l.queued += l.entries
	l.entries = 0
}

// put writes what is pending. After an error pending starts with the first
// line that is not whole in the file.
func (l *Log) put() error {
	if len(l.pending) == 0 {
		return nil
	}
	if l.torn {
		if err := l.closeLine(); err != nil {
			return err
		}
	}
	n, err := l.file.Write(l.pending)
	whole := bytes.LastIndexByte(l.pending[:n], '\n') + 1
	lines := uint64(bytes.Count(l.pending[:whole], []byte{'\n'}))
	l.written.Add(lines)
	l.queued -= lines
	l.synced = l.synced && n == 0
	l.torn = n > whole
	l.pending = append(l.pending[:0], l.pending[whole:]...)
	return err
}

// closeLine ends a line that was cut, so that the next one is whole.
func (l *Log) closeLine() error {
	if _, err := l.file.Write([]byte{'\n'}); err != nil {
		return err
	}
	l.torn, l.synced = false, false
	l.repaired.Add(1)
	return nil
}

// broke notes a failed write or sync. In required mode it becomes the sticky
// error and what is pending is kept; else what is pending is given up. A
// person is told once, not for every line.
func (l *Log) broke(doing string, err error) {
	err = fmt.Errorf("%s audit log %s: %w: check the disk and reload", doing, l.path, err)
	if l.failed.Swap(&err) == nil {
		l.log.Error("the audit log cannot be written", slog.Any("error", err), slog.Bool("calls_refused", l.opts.Mode == Required))
	}
	if l.opts.Mode != Required {
		l.lost.Add(l.queued)
		l.pending, l.queued = l.pending[:0], 0
	}
}
