package audit

import (
	"context"
	"log/slog"
	"time"
)

const (
	// anchorEvery is how long the head of a chain may be without an anchor.
	anchorEvery = 10 * time.Second
	// anchorTime bounds the writing of one.
	anchorTime = 5 * time.Second
	// tryEvery is how often a log that cannot be written is opened anew.
	tryEvery = time.Second
	// pruneEvery is how often it is looked for files that are too old.
	pruneEvery = time.Hour
)

// head returns the head of the chain; the caller holds out.
func (l *Log) head() Head {
	return Head{Replica: l.own.Replica, Chain: l.own.Chain, Run: l.own.Run, Seq: l.chain.seq, MAC: string(l.chain.last[:]), Time: time.Now()}
}

// Head returns the head of the chain: the last line that was written.
func (l *Log) Head() Head {
	l.out.Lock()
	defer l.out.Unlock()
	return l.head()
}

// durable makes what was appended durable and returns the head of that.
func (l *Log) durable() (Head, bool) {
	l.flush(l.opts.Fsync != FsyncNone)
	return l.Head(), l.Healthy() == nil
}

// anchorNow anchors a head, and tells whether it is. No line waits for it.
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
