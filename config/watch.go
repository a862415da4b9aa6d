package config

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/toolgate/toolgate/config/format"
)

// Times of a [Watcher] that are not set.
const (
	defaultDebounce = 200 * time.Millisecond
	defaultPoll     = 2 * time.Second
	// recheck is how often contents are compared although the system reports
	// changes: some file systems report none.
	recheck = 30 * time.Second
	// maxDebounces bounds how long a file that never rests can put off its
	// own reload, in debounce times.
	maxDebounces = 10
)

// Watcher reports when the contents of files really changed: not when they were
// touched, replaced by the same, or written in several steps. It follows
// symbolic links, whichever of a path's folders is one, and falls back to
// looking now and then where the system cannot report changes.
type Watcher struct {
	// Files are the absolute paths to watch, usually [Config.Files].
	Files []string
	// OnChange is called after a change, from the goroutine of Run, never
	// twice at a time. It returns the files to watch from then on; nil
	// keeps them.
	OnChange func(ctx context.Context) (files []string)
	// Debounce is how long a file must rest before it is read. 0: 200 ms.
	Debounce time.Duration
	// Poll is how often files are read where changes are not reported.
	// 0: 2 s.
	Poll time.Duration
	// Logger gets one line when watching is not possible. Nil: none.
	Logger *slog.Logger

	// notify replaces the system's notifications in tests.
	notify func() (notifier, error)
}

// notifier reports changes in folders.
type notifier interface {
	Add(dir string) error
	Events() <-chan fsnotify.Event
	Errors() <-chan error
	Close() error
}

type systemNotifier struct{ *fsnotify.Watcher }

func (s systemNotifier) Events() <-chan fsnotify.Event { return s.Watcher.Events }
func (s systemNotifier) Errors() <-chan error          { return s.Watcher.Errors }

func newSystemNotifier() (notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return systemNotifier{w}, nil
}

// Run watches until ctx ends, and returns nil then. What the files hold when it
// starts is not a change.
func (w *Watcher) Run(ctx context.Context) error {
	logger := w.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	l := &watchLoop{Watcher: w, logger: logger, files: slices.Clone(w.Files)}
	l.subscribe()
	l.sum = fingerprint(l.files)
	defer l.unsubscribe()
	return l.run(ctx)
}

type watchLoop struct {
	*Watcher
	logger  *slog.Logger
	files   []string
	sum     [sha256.Size]byte
	system  notifier
	points  map[string]bool // the entries whose events count
	polling bool
}

func (l *watchLoop) debounce() time.Duration {
	if l.Debounce > 0 {
		return l.Debounce
	}
	return defaultDebounce
}

func (l *watchLoop) poll() time.Duration {
	switch {
	case !l.polling:
		return recheck
	case l.Poll > 0:
		return l.Poll
	}
	return defaultPoll
}

// subscribe asks the system for the events of every folder that matters.
func (l *watchLoop) subscribe() {
	l.points = map[string]bool{}
	open := newSystemNotifier
	if l.notify != nil {
		open = l.notify
	}
	system, err := open()
	if err == nil {
		dirs := map[string]bool{}
		for _, file := range l.files {
			for _, point := range watchPoints(file) {
				l.points[point] = true
				dirs[filepath.Dir(point)] = true
			}
		}
		for dir := range dirs {
			if err = system.Add(dir); err != nil {
				break
			}
		}
		if err != nil {
			_ = system.Close() // nothing was reported yet
		}
	}
	if err != nil {
		if !l.polling {
			l.logger.Warn("changes of configuration files are not reported, reading them now and then instead", "error", err)
		}
		l.system, l.polling = nil, true
		return
	}
	l.system, l.polling = system, false
}

func (l *watchLoop) unsubscribe() {
	if l.system != nil {
		_ = l.system.Close() // only reads end
		l.system = nil
	}
}

func (l *watchLoop) run(ctx context.Context) error {
	tick := time.NewTimer(l.poll())
	defer tick.Stop()
	var rest <-chan time.Time // set while a change waits for the file to rest
	var last time.Time        // the latest moment for that
	var events <-chan fsnotify.Event
	var errs <-chan error
	if l.system != nil {
		events, errs = l.system.Events(), l.system.Errors()
	}
	resubscribe := func() {
		l.unsubscribe()
		l.subscribe()
		events, errs = nil, nil
		if l.system != nil {
			events, errs = l.system.Events(), l.system.Errors()
		}
		tick.Reset(l.poll())
	}
	// follow subscribes to what the files are after a change. What changed
	// since they were read was reported to a subscription that is gone.
	follow := func() {
		resubscribe()
		if fingerprint(l.files) != l.sum {
			rest, last = time.After(l.debounce()), time.Now().Add(maxDebounces*l.debounce())
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if !l.points[filepath.Clean(e.Name)] {
				continue
			}
			now := time.Now()
			if rest == nil {
				last = now.Add(maxDebounces * l.debounce())
			}
			rest = time.After(min(l.debounce(), max(last.Sub(now), 0)))
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			// Events were lost; the contents tell what they were about.
			l.logger.Warn("watching configuration files", "error", err)
			rest, last = time.After(l.debounce()), time.Now().Add(maxDebounces*l.debounce())
		case <-rest:
			rest = nil
			// What was replaced has to be watched anew, and before it is read,
			// so that no later change falls between the two.
			resubscribe()
			if l.check(ctx) {
				follow()
			}
		case <-tick.C:
			if l.check(ctx) {
				follow()
				continue
			}
			tick.Reset(l.poll())
		}
	}
}

// check compares the contents and calls OnChange if they differ.
func (l *watchLoop) check(ctx context.Context) bool {
	sum := fingerprint(l.files)
	if sum == l.sum {
		return false
	}
	l.sum = sum
	if l.OnChange == nil {
		return true
	}
	if files := l.OnChange(ctx); files != nil && !slices.Equal(files, l.files) {
		l.files = slices.Clone(files)
		l.sum = fingerprint(l.files)
	}
	return true
}

// fingerprint hashes the contents of files. A file that cannot be read counts
// as empty and different from an empty one.
func fingerprint(files []string) [sha256.Size]byte {
	h := sha256.New()
	for _, path := range files {
		data, err := format.ReadFile(path)
		sum := sha256.Sum256(data)
		_, _ = io.WriteString(h, path+"\x00") // a hash takes everything
		if err != nil {
			_, _ = io.WriteString(h, "unreadable")
			continue
		}
		_, _ = h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// maxLinks bounds the symbolic links followed in one path.
const maxLinks = 40

// watchPoints lists every entry of a folder on which the contents of a path
// depend: the file itself and each symbolic link on the way to it.
func watchPoints(path string) []string {
	points := []string{filepath.Clean(path)}
	rest := filepath.Clean(path)
	for range maxLinks {
		link, after := firstLink(rest)
		if link == "" {
			return append(points, rest)
		}
		points = append(points, link)
		target, err := os.Readlink(link)
		if err != nil {
			return points
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		rest = filepath.Join(target, after)
	}
	return points
}

// firstLink splits a path at its first component that is a symbolic link.
func firstLink(path string) (link, after string) {
	volume := filepath.VolumeName(path)
	sep := string(filepath.Separator)
	parts := strings.Split(strings.TrimPrefix(path[len(volume):], sep), sep)
	at := volume + sep
	for i, part := range parts {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err != nil {
			return "", ""
		}
		if info.Mode()&os.ModeSymlink != 0 {
			return at, filepath.Join(parts[i+1:]...)
		}
	}
	return "", ""
}
