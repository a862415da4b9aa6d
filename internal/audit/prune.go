package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// expiredFile is a rotated file that is old enough to be removed.
type expiredFile struct {
	name  string
	until uint64 // the last line of this log's chain in it; zero without any
}

// pruneNow removes old rotated files. Marks in the chain announce that first: even if
// the gateway is killed, no line is missing without a mark. The caller does not hold
// out.
func (l *Log) pruneNow(now time.Time) {
	if l.opts.Keep <= 0 {
		return
	}
	due := l.due(now)
	if len(due) == 0 {
		return
	}
	l.out.Lock()
	defer l.release()
	if l.file == nil || l.failed.Load() != nil {
		return // nothing is removed that cannot be announced
	}
	for _, o := range due {
		l.own.Removed, l.own.Until = filepath.Base(o.name), max(l.own.Until, o.until)
	}
	l.place.mark = true
	l.flushTo(l.opts.Fsync != FsyncNone)
	if l.failed.Load() != nil {
		return
	}
	for _, o := range due {
		if err := os.Remove(o.name); err != nil {
			l.log.Warn("an old audit log cannot be removed", slog.Any("error", err))
		}
	}
}

// due returns the files that are old enough. Anybody who can write the folder can
// choose names, so names only select candidates. The signed lines of a file show its
// age and content, and nobody without the keys can write those.
func (l *Log) due(now time.Time) (due []expiredFile) {
	names, err := siblings(l.path)
	if err != nil {
		l.log.Warn("looking for old audit logs", slog.Any("error", err))
		return nil
	}
	for _, name := range names {
		stamp, _, ok := strings.Cut(strings.TrimPrefix(name, l.path+"."), "-")
		at, err := time.Parse(rotatedLayout, stamp)
		if !ok || err != nil || now.Sub(at) < l.opts.Keep {
			continue
		}
		p, err := l.prove(name)
		switch {
		case err != nil:
			l.log.Warn("a file named like an old audit log stays: it is not as the gateway wrote it", slog.String("file", filepath.Base(name)), slog.Any("error", err))
		case now.Sub(p.at) < l.opts.Keep:
		case p.chain == l.own.Chain:
			due = append(due, expiredFile{name, p.until})
		default:
			due = append(due, expiredFile{name, 0})
		}
	}
	return due
}

// proof is the verified content of a rotated file.
type proof struct {
	chain string
	until uint64    // the last line
	at    time.Time // the latest time in its lines
}

var errNotWritten = errors.New("a line, or its place, is not what was written")

// prove verifies the MAC of every line of a file.
func (l *Log) prove(name string) (p proof, err error) {
	f, err := os.Open(name)
	if err != nil {
		return p, err
	}
	defer f.Close()
	keys := make(map[string]*chain)
	for _, k := range append([]Key{l.opts.Key}, l.opts.Earlier...) {
		keys[k.ID] = newChain(k)
	}
	var key *chain
	var last, prev []byte
	err = eachLine(f, func(line []byte, whole bool) error {
		is, ok := parseLink(line)
		if !ok || !whole {
			return nil
		}
		if string(is.event) == string(eventOpen) {
			var m Mark
			if err := json.Unmarshal(line, &m); err != nil {
				return err
			}
			if p.chain == "" {
				p.chain, prev = m.Chain, append(prev[:0], m.Prev...)
			}
			if key = keys[m.Key]; key == nil || m.Chain != p.chain || m.Prev != string(prev) {
				return errNotWritten
			}
			p.at = later(p.at, m.Time)
		}
		if key == nil || len(prev) != sizeMAC || !key.signs(string(prev), &is) {
			return errNotWritten
		}
		p.until, prev, last = is.seq, append(prev[:0], is.mac...), append(last[:0], line...)
		return nil
	})
	if err != nil {
		return p, err
	}
	var end struct{ Time time.Time }
	if err := json.Unmarshal(last, &end); err != nil {
		return p, fmt.Errorf("it has no line of a log: %w", err)
	}
	p.at = later(p.at, end.Time)
	return p, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
