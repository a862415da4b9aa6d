package audit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Run writes what is buffered, at most 100 ms later, until ctx ends; then
// it writes what is left and returns nil. Entries that come after are written
// by [Log.Close]. While a log in required mode cannot be written, Run tries to
// open it anew every second. A log is idle while nothing is appended.
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
	var anchored chan bool // while one is under way, which a store may make slow
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
		case <-l.aside:
			l.pruneNow(time.Now())
			continue
		case <-again:
			again = nil
			if l.failed.Load() != nil {
				_ = l.Reopen() // the sticky error says it
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

// flushDue is flush of Run, which is to be woken anew for what comes after.
func (l *Log) flushDue() {
	l.mu.Lock()
	l.woken = false
	l.mu.Unlock()
	l.flush(false)
}

// flush writes what is buffered, unless an error forbids it, and syncs if
// told to, or if every line is to be synced.
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

// writable tells whether there is a file, and no error that forbids to write to it.
// The caller holds out.
func (l *Log) writable() bool { return l.file != nil && l.Healthy() == nil }

// write moves the buffer to the file, which it puts aside when it is due, and
// follows when it was moved. The caller holds out.
func (l *Log) write(sync bool) {
	if err := l.look(time.Now()); err != nil {
		l.take()
		l.broke("open", err)
		return
	}
	l.flushTo(sync)
}

// flushTo moves the buffer to the file that is open. The caller holds out.
func (l *Log) flushTo(sync bool) {
	l.take()
	if l.failed.Load() == nil || l.opts.Mode != Required {
		l.settle(sync)
	}
}

// settle writes what is pending, whatever went wrong before, and when that is
// done nothing is wrong any more. The caller holds out.
func (l *Log) settle(sync bool) {
	if err := l.put(); err != nil {
		l.broke("write", err)
		return
	}
	if (sync || l.opts.Fsync == FsyncAlways) && !l.synced {
		if err := l.file.Sync(); err != nil {
			l.broke("sync", err)
			return
		}
		l.synced = true
	}
	if l.failed.Swap(nil) != nil {
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
	if l.entries > 0 {
		l.groups.filling++
	}
	l.queued += l.entries
	l.entries = 0
	l.kept.Store(int64(len(l.pending)))
}

// put writes what is pending, behind a mark where one is due. After an error
// pending starts with the first line that is not whole in the file, and the
// chain is where the file is.
func (l *Log) put() error {
	p, lost := &l.place, l.lost.Load()
	due := p.mark || p.cut || p.junk > 0 || lost != l.marked
	if len(l.pending) == 0 && !due {
		return nil
	}
	seq, last := l.chain.seq, l.chain.last
	out, lead := l.sealed[:0], 0
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
	if n < lead { // of the mark, which is no line then
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

// broke notes a failed write or sync. In required mode it becomes the sticky
// error and what is pending is kept; else what is pending is given up. A
// person is told once, not for every line.
func (l *Log) broke(doing string, err error) {
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
