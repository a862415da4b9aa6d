package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// checkFileEvery is how often the log checks that the file is still at its path.
	checkFileEvery = time.Second
	// scanBytes and scanAge bound the rotated files that are searched at the start for
	// calls without an end.
	scanBytes = 256 << 20
	scanAge   = 24 * time.Hour
	// rotatedLayout is the time format in the name of a rotated file.
	rotatedLayout = "20060102T150405Z"
)

var errNotRegular = errors.New("it is not a regular file: name another path (toolgate.audit.path)")

// openFile opens the file at path for appending, and creates it if necessary.
func openFile(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create its folder: %w", err)
	}
	// Checked first, because opening a pipe without a reader may block for ever.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := restrict(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// restrict makes a file accessible only to its owner, and refuses irregular ones.
func restrict(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errNotRegular
	case info.Mode().Perm()&0o077 != 0:
		// On systems without such modes this changes nothing.
		if err := f.Chmod(0o600); err != nil {
			return fmt.Errorf("make it readable by its owner only: %w", err)
		}
	}
	return nil
}

// resume finds the end of the chain and the calls without an end, and continues both.
func (l *Log) resume(f *os.File) error {
	files, err := Files(l.path)
	if err != nil {
		return err
	}
	all := &found{begun: make(map[string]*openCall)}
	for _, name := range recent(files, l.path) {
		if err := all.scanFile(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	all.first = Mark{}
	if err := all.scan(contents(f)); err != nil {
		return err
	}
	if all.seq > 0 {
		l.chain.follow(all.seq, all.mac[:])
		if all.last.Chain != "" {
			l.own.Chain = all.last.Chain
		}
	}
	l.place = place{mark: true, junk: all.junk, cut: all.cut, since: all.first.Time}
	if info, err := f.Stat(); err == nil {
		l.place.size = info.Size()
	}
	l.closeUnknown(all)
	return nil
}

// contents reads an open file from its beginning. Other programs may have moved or
// removed its name meanwhile.
func contents(f *os.File) io.Reader { return io.NewSectionReader(f, 0, math.MaxInt64) }

func (f *found) scanFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return f.scan(file)
}

// closeUnknown ends the calls that an earlier run left open.
func (l *Log) closeUnknown(all *found) {
	open := make([]*openCall, 0, len(all.begun))
	for _, b := range all.begun {
		open = append(open, b)
	}
	slices.SortFunc(open, func(a, b *openCall) int { return cmp.Compare(a.order, b.order) })
	now := time.Now()
	for _, b := range open {
		var e Entry
		if err := json.Unmarshal(b.line, &e); err != nil {
			l.log.Warn("a line of the audit log that began a call cannot be read", slog.Any("error", err))
			continue
		}
		e.Event, e.Time = EventEnd, now
		e.Outcome, e.Reason = OutcomeUnknown, "the gateway ended before the call did"
		l.pending = appendEntry(l.pending, &e)
		l.queued++
		l.unknown++
		l.accepted.Add(1)
	}
}

// useFile switches to another file, or to the same one reopened, and closes the
// previous one. The caller holds out.
func (l *Log) useFile(f *os.File) error {
	old := l.file
	l.syncLast(old)
	if !sameFile(old, f) {
		var tail found
		if err := tail.scan(contents(f)); err != nil {
			return errors.Join(err, f.Close())
		}
		l.place = place{junk: tail.junk, cut: tail.cut, since: tail.first.Time}
		if info, err := f.Stat(); err == nil {
			l.place.size = info.Size()
		}
	}
	l.file, l.place.mark, l.checked = f, true, time.Now()
	if err := old.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		l.log.Warn("closing the audit log that was replaced", slog.Any("error", err))
	}
	return nil
}

// syncLast syncs a file for the last time. Its errors count like those of any sync,
// because the system reports them only once. The caller holds out.
func (l *Log) syncLast(f file) {
	if l.synced || l.opts.Fsync == FsyncNone {
		return
	}
	if err := f.Sync(); err != nil && !errors.Is(err, fs.ErrClosed) {
		l.failedWrite("sync", err)
	}
}

func sameFile(a, b file) bool {
	as, aok := a.(interface{ Stat() (os.FileInfo, error) })
	bs, bok := b.(interface{ Stat() (os.FileInfo, error) })
	if !aok || !bok {
		return false
	}
	ai, aerr := as.Stat()
	bi, berr := bs.Stat()
	return aerr == nil && berr == nil && os.SameFile(ai, bi)
}

// checkFile follows a file that was moved away or removed, and rotates one that is due.
// The caller holds out.
func (l *Log) checkFile(now time.Time) error {
	f, ok := l.file.(*os.File)
	if !ok || l.failed.Load() != nil && l.opts.Mode == Required {
		return nil
	}
	if now.Sub(l.checked) >= checkFileEvery {
		l.checked = now
		at, err := os.Stat(l.path)
		is, own := f.Stat()
		if err != nil || own != nil || !os.SameFile(at, is) {
			next, err := openFile(l.path)
			if err != nil {
				return err
			}
			return l.useFile(next)
		}
	}
	if l.place.since.IsZero() {
		l.place.since = now
	}
	l.mu.Lock()
	more := int64(len(l.buf) + len(l.pending))
	l.mu.Unlock()
	o := &l.opts
	large := o.RotateSize > 0 && l.place.size > 0 && l.place.size+more > o.RotateSize
	if (large || o.RotateAge > 0 && now.Sub(l.place.since) >= o.RotateAge && l.place.size > 0) && now.After(l.retryRotate) {
		return l.rotate(f, now)
	}
	return nil
}

// rotate gives the file its final name and begins the next one.
func (l *Log) rotate(f file, now time.Time) error {
	l.syncLast(f)
	if err := f.Close(); err != nil { // closed first, because some systems cannot rename open files
		l.log.Warn("closing the audit log that is put aside", slog.Any("error", err))
	}
	aside := l.path + "." + now.UTC().Format(rotatedLayout) + "-" + strconv.FormatUint(l.chain.seq, 10)
	if err := os.Rename(l.path, aside); err != nil {
		l.retryRotate = now.Add(time.Minute)
		l.log.Warn("the audit log cannot be put aside and grows on", slog.Any("error", err))
	}
	next, err := openFile(l.path)
	if err != nil {
		return err
	}
	signal(l.rotated)
	return l.useFile(next)
}

// resolved follows a symbolic link at path, so that the file is rotated where it is.
// Any other path is returned unchanged.
func resolved(path string) string {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		return path
	}
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	return at
}

// siblings returns the regular files beside path whose names extend its name.
func siblings(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	list, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if strings.HasPrefix(e.Name(), base+".") && e.Type().IsRegular() {
			names = append(names, dir+e.Name())
		}
	}
	return names, nil
}

// Files returns the files of a log, oldest first: those beside path whose names extend
// its name and that hold lines of a chain, and path at the end.
func Files(path string) ([]string, error) {
	path = resolved(path)
	names, err := siblings(path)
	if err != nil {
		return nil, err
	}
	type dated struct {
		name string
		mark Mark
		seq  uint64
	}
	var all []dated
	for _, name := range names {
		if m, seq, ok := firstMark(name); ok {
			all = append(all, dated{name, m, seq})
		}
	}
	begins := make(map[string]dated) // the first mark of each chain, whose time orders the chain
	for _, d := range all {
		if b, ok := begins[d.mark.Chain]; !ok || d.seq < b.seq {
			begins[d.mark.Chain] = d
		}
	}
	slices.SortFunc(all, func(a, b dated) int {
		if a.mark.Chain == b.mark.Chain {
			return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.name, b.name))
		}
		return cmp.Or(begins[a.mark.Chain].mark.Time.Compare(begins[b.mark.Chain].mark.Time), cmp.Compare(a.mark.Chain, b.mark.Chain))
	})
	files := make([]string, 0, len(all)+1)
	for _, d := range all {
		files = append(files, d.name)
	}
	if _, err := os.Lstat(path); err == nil {
		files = append(files, path)
	}
	return files, nil
}

var errEnough = errors.New("enough")

// firstMark returns the first mark of a file; ok is false when it has none.
func firstMark(name string) (m Mark, seq uint64, ok bool) {
	f, err := os.Open(name)
	if err != nil {
		return m, 0, false
	}
	defer f.Close()
	_ = eachLine(f, func(line []byte, whole bool) error {
		l, isLink := parseLink(line)
		if !isLink || !whole {
			return nil
		}
		if string(l.event) == string(eventOpen) {
			ok = json.Unmarshal(line, &m) == nil
			seq = l.seq
			return errEnough
		}
		return nil
	})
	return m, seq, ok
}

// recent returns those of the files before path that may hold open calls, oldest first.
func recent(files []string, path string) []string {
	var bytes int64
	for i, name := range slices.Backward(files) {
		if name == path {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return files[i+1:]
		}
		// The newest one is always read, because the chain continues after it.
		if bytes += info.Size(); bytes > info.Size() && (bytes > scanBytes || time.Since(info.ModTime()) > scanAge) {
			return slices.DeleteFunc(slices.Clone(files[i+1:]), func(f string) bool { return f == path })
		}
	}
	return slices.DeleteFunc(slices.Clone(files), func(f string) bool { return f == path })
}
