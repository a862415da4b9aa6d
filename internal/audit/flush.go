package audit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Run writes the buffer every 100 ms until ctx ends; then it writes the rest and
// returns nil. [Log.Close] writes entries that come later. While a log in required mode
// cannot be written, Run reopens it every second. Without entries Run sleeps.
func (l *Log) Run(ctx context.Context) error {
	if !l.discard && l.wake == nil {
		return ErrClosed
	}
	old := time.NewTicker(pruneEvery)
	defer old.Stop()
	var due, sync, anchor, again <-chan time.Time
	if l.opts.Anchor != nil {
		anchor = time.After(0) // so that every chain is anchored from its start
	}
	var anchored chan bool // while an anchor is under way, which may take long
	defer func() {
		if anchored != nil {
			<-anchored
		}
	}()
	for {
		if again == nil && l.failed.Load() != nil {
			again = time.After(tryEvery)
		}
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
			l.flushDue()
		case <-due:
			due = nil
			l.flushDue()
		case <-sync:
			sync = nil
			l.durable()
			continue
		case <-anchor:
			anchor = nil
			if anchored != nil {
				anchor = time.After(anchorEvery)
				continue
			}
			if head, ok := l.durable(); ok {
				ended := make(chan bool, 1)
				anchored = ended
				go func() { ended <- l.anchorNow(head) }()
			}
			continue
		case ok := <-anchored:
			if anchored = nil; !ok && anchor == nil {
				anchor = time.After(anchorEvery)
			}
			continue
		case now := <-old.C:
			l.pruneNow(now)
			continue
		case <-l.rotated:
			l.pruneNow(time.Now())
			continue
		case <-again:
			again = nil
			if l.failed.Load() != nil {
				_ = l.Reopen() // the sticky error reports it
			}
		}
		if sync == nil && l.opts.Fsync == FsyncInterval {
			sync = time.After(fsyncEvery)
		}
		if anchor == nil && l.opts.Anchor != nil {
			anchor = time.After(anchorEvery)
		}
	}
}

// flushDue flushes for Run and lets it be woken again.
func (l *Log) flushDue() {
	l.mu.Lock()
	l.woken = false
	l.mu.Unlock()
	l.flush(false)
}

// flush writes the buffer, unless an error forbids it. It syncs if sync is set or each
// line must be synced.
func (l *Log) flush(sync bool) {
	if l.discard {
		return
	}
	l.out.Lock()
	defer l.release()
	if l.writable() {
		l.write(sync)
	}
}

// writable reports whether there is a file and no error that forbids writing. The
// caller holds out.
func (l *Log) writable() bool { return l.file != nil && l.Healthy() == nil }

// write writes the buffer to the file. It rotates the file when it is due, and follows
// it when it was moved. The caller holds out.
func (l *Log) write(sync bool) {
	if err := l.checkFile(time.Now()); err != nil {
		l.queueBuffer()
		l.failedWrite("open", err)
		return
	}
	l.flushTo(sync)
}

// flushTo writes the buffer to the open file. The caller holds out.
func (l *Log) flushTo(sync bool) {
	l.queueBuffer()
	if l.failed.Load() == nil || l.opts.Mode != Required {
		l.writePending(sync)
	}
}

// writePending writes the pending lines whatever failed before. Success clears the
// error. The caller holds out.
func (l *Log) writePending(sync bool) {
	if err := l.put(); err != nil {
		l.failedWrite("write", err)
		return
	}
	if (sync || l.opts.Fsync == FsyncAlways) && !l.synced {
		if err := l.file.Sync(); err != nil {
			l.failedWrite("sync", err)
			return
		}
		l.synced = true
	}
	if l.failed.Swap(nil) != nil {
		l.log.Info("the audit log can be written again", slog.Uint64("entries_lost", l.lost.Load()))
	}
}

// queueBuffer moves the buffer to the end of pending.
func (l *Log) queueBuffer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		l.pending, l.buf = l.buf, reusable(l.pending) // swap, so that both are reused
	} else {
		l.pending = append(l.pending, l.buf...)
		l.buf = l.buf[:0]
	}
	if l.entries > 0 {
		l.groups.filling++
	}
	l.queued += l.entries
	l.entries = 0
	l.kept.Store(int64(len(l.pending)))
}

// reusable returns an empty buffer in the memory of one that is written.
func reusable(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

// put writes the pending lines, after a mark where one is due. After an error pending
// begins with the first line that is not completely in the file, and the chain is where
// the file is.
func (l *Log) put() error {
	p, lost := &l.place, l.lost.Load()
	due := p.mark || p.cut || p.junk > 0 || lost != l.marked
	if len(l.pending) == 0 && !due {
		return nil
	}
	seq, last := l.chain.seq, l.chain.last
	out, lead := reusable(l.sealed), 0
	if due {
		m := l.own
		m.Time, m.Prev, m.Torn, m.Lost = time.Now(), string(last[:]), p.junk, lost-l.marked
		if p.cut {
			out = append(out, '\n')
			m.Torn++
		}
		out = l.chain.link(out, appendMark(nil, &m))
		lead = len(out)
	}
	out = l.chain.seal(out, l.pending)
	l.sealed = out
	n, err := l.file.Write(out)
	p.size += int64(n)
	l.synced = l.synced && n == 0
	if p.cut && n > 0 {
		l.repaired.Add(1)
	}
	if n < lead { // the mark is incomplete, so it is no line
		l.chain.follow(seq, last[:])
		if p.junk += int64(n); n > 0 {
			p.cut = out[n-1] != '\n'
		}
		return err
	}
	if due {
		p.mark, l.marked = false, lost
	}
	whole := bytes.LastIndexByte(out[:n], '\n') + 1
	lines := uint64(bytes.Count(out[lead:whole], []byte{'\n'}))
	p.junk, p.cut = int64(n-whole), n > whole
	l.written.Add(lines)
	l.queued -= min(lines, l.queued)
	if n == len(out) {
		l.pending = l.pending[:0]
		return err
	}
	l.chain.follow(seq, last[:])
	if end, ok := parseLink(out[bytes.LastIndexByte(out[:max(0, whole-1)], '\n')+1 : max(0, whole-1)]); ok {
		l.chain.follow(end.seq, end.mac)
	}
	rest := l.pending
	for range lines {
		rest = rest[bytes.IndexByte(rest, '\n')+1:]
	}
	l.pending = append(l.pending[:0], rest...)
	return err
}

// failedWrite records a failed write or sync. In required mode it becomes the sticky
// error and the pending lines are kept; else they are dropped. It logs once, not for
// every line.
func (l *Log) failedWrite(doing string, err error) {
	err = fmt.Errorf("%s audit log %s: %w: check the disk; it is tried again by itself", doing, l.path, err)
	l.kept.Store(int64(len(l.pending)))
	if l.failed.Swap(&err) == nil {
		l.log.Error("the audit log cannot be written", slog.Any("error", err), slog.Bool("calls_refused", l.opts.Mode == Required))
	}
	if l.opts.Mode != Required {
		l.lost.Add(l.queued)
		l.pending, l.queued = l.pending[:0], 0
	}
}
