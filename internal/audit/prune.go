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

// old is a file that was put aside long enough ago to be removed.
type old struct {
	name  string
	until uint64 // the last line of the own chain in it; zero where it has none
}

// pruneNow removes files that were put aside long enough ago. The chain says so
// first: whenever the gateway is killed, no line is missing that it does not
// tell of. The caller does not hold out.
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
		return // and nothing is removed of which nothing can be said
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

// due returns the files that are old enough. A name can be given by whoever can
// write the folder, so it only says which files to look at: that a file is old,
// and which lines are in it, its own lines say, which somebody without the keys
// cannot have written.
func (l *Log) due(now time.Time) (due []old) {
	names, err := siblings(l.path)
	if err != nil {
		l.log.Warn("looking for old audit logs", slog.Any("error", err))
		return nil
	}
	for _, name := range names {
		stamp, _, ok := strings.Cut(strings.TrimPrefix(name, l.path+"."), "-")
		at, err := time.Parse(asideLayout, stamp)
		if !ok || err != nil || now.Sub(at) < l.opts.Keep {
			continue
		}
		p, err := l.prove(name)
		switch {
		case err != nil:
			l.log.Warn("a file named like an old audit log stays: it is not as the gateway wrote it", slog.String("file", filepath.Base(name)), slog.Any("error", err))
		case now.Sub(p.at) < l.opts.Keep:
		case p.chain == l.own.Chain:
			due = append(due, old{name, p.until})
		default:
			due = append(due, old{name, 0})
		}
	}
	return due
}

// proof is what the lines of a file say that was put aside.
type proof struct {
	chain string
	until uint64    // the last line
	at    time.Time // the latest time in them
}

var errNotWritten = errors.New("a line, or its place, is not what was written")

// prove holds every line of a file to its MAC.
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
