package audit

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"
)

const (
	// anchorEvery is how long the head of a chain may be without an anchor.
	anchorEvery = 10 * time.Second
	// anchorTime bounds the writing of one anchor.
	anchorTime = 5 * time.Second
	// tryEvery is how often a log that cannot be written is reopened.
	tryEvery = time.Second
	// pruneEvery is how often old files are looked for.
	pruneEvery = time.Hour
)

// head returns the head of the chain; the caller holds out.
func (l *Log) head() Head {
	return Head{Replica: l.own.Replica, Chain: l.own.Chain, Run: l.own.Run, Seq: l.chain.seq, MAC: string(l.chain.last[:]), Time: time.Now()}
}

// Head returns the head of the chain: the last written line.
func (l *Log) Head() Head {
	l.out.Lock()
	defer l.out.Unlock()
	return l.head()
}

// durable syncs the written lines and returns the head of the chain then. With
// FsyncNone the operating system decides about the sync. Writers do not wait for the
// disk meanwhile.
func (l *Log) durable() (Head, bool) {
	f, head := l.unsynced()
	if f == nil {
		return head, l.Healthy() == nil
	}
	err := f.Sync()
	l.out.Lock()
	defer l.release()
	replaced := l.file != f // by another goroutine, which has synced it and may have closed it
	switch {
	case err != nil && !(replaced && errors.Is(err, fs.ErrClosed)):
		l.failedWrite("sync", err)
	case err == nil && !replaced && l.chain.seq == head.Seq:
		l.synced = true
	}
	return head, l.Healthy() == nil
}

// unsynced writes the buffer and returns the new head, and the file if it must be
// synced.
func (l *Log) unsynced() (file, Head) {
	l.out.Lock()
	defer l.release()
	if !l.writable() {
		return nil, l.head()
	}
	l.write(false)
	if l.synced || l.opts.Fsync == FsyncNone {
		return nil, l.head()
	}
	return l.file, l.head()
}

// anchorNow anchors a head and reports whether that succeeded. No writer waits for it.
func (l *Log) anchorNow(h Head) bool {
	if l.opts.Anchor == nil || h.Seq == l.anchored.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), anchorTime)
	defer cancel()
	if err := l.opts.Anchor(ctx, h); err != nil {
		l.log.Warn("the head of the audit log cannot be anchored", slog.Any("error", err))
		return false
	}
	l.anchored.Store(h.Seq)
	return true
}
