package opa

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times of watching.
const (
	debounce     = 200 * time.Millisecond
	maxDebounces = 10               // a folder that never rests is read after so many
	recheck      = 30 * time.Second // some file systems report no changes
	recheckBlind = 2 * time.Second  // where nothing is reported
)

// watcher reports that something in the folders of a policy changed.
type watcher struct {
	system *fsnotify.Watcher // nil where the system cannot tell
	dirs   []string
	single string // the only file that counts; empty for all
}

// watch reads the policy again after it changed.
func (p *Phase) watch(ctx context.Context) error {
	w := &watcher{}
	defer func() { w.close() }()
	p.follow(ctx, w)
	// What changed between the first load and now was reported to nobody.
	p.reload(ctx)
	tick := time.NewTicker(w.interval())
	defer tick.Stop()
	var rest <-chan time.Time // set while the folder must come to rest
	var last time.Time        // when it is read at the latest
	for {
		events, errs := w.channels()
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			if !ok {
				w.close()
				continue
			}
			if !w.counts(e) {
				continue
			}
			now := time.Now()
			if rest == nil {
				last = now.Add(maxDebounces * debounce)
			}
			rest = time.After(min(debounce, max(last.Sub(now), 0)))
			continue
		case _, ok := <-errs: // events were lost; the contents tell
			if !ok {
				w.close()
				continue
			}
			rest, last = time.After(debounce), time.Now().Add(maxDebounces*debounce)
			continue
		case <-rest:
			rest = nil
		case <-tick.C:
		}
		// New folders are watched before they are read, so that no change
		// falls between the two.
		p.follow(ctx, w)
		p.reload(ctx)
		tick.Reset(w.interval())
	}
}

// reload reads the policy and puts it in force if it is another.
func (p *Phase) reload(ctx context.Context) {
	src, err := readPath(p.o.Path)
	changed := false
	if err == nil {
		changed, err = p.replace(ctx, src, false)
	}
	if err != nil {
		p.failed(ctx, err)
		return
	}
	p.agreed()
	if changed {
		p.changed()
	}
}

// follow watches the folders that the policy has now.
func (p *Phase) follow(ctx context.Context, w *watcher) {
	dirs, single := []string{filepath.Dir(p.o.Path)}, filepath.Base(p.o.Path)
	if src, err := readPath(p.o.Path); err == nil && src.dirs != nil {
		dirs, single = src.dirs, ""
	} else if err != nil && w.system != nil {
		return // it will be there again, or is being written
	}
	if w.system != nil && slices.Equal(dirs, w.dirs) {
		return
	}
	w.close()
	w.dirs, w.single = dirs, single
	system, err := fsnotify.NewWatcher()
	if err != nil {
		p.o.Logger.WarnContext(ctx, "changes of the policy are not reported, reading it now and then instead", "error", err)
		return
	}
	for _, dir := range dirs {
		if err := system.Add(dir); err != nil {
			p.o.Logger.WarnContext(ctx, "changes of the policy are not reported, reading it now and then instead", "error", err)
			_ = system.Close() // nothing was reported yet
			return
		}
	}
	w.system = system
}

func (w *watcher) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.system == nil {
		return nil, nil
	}
	return w.system.Events, w.system.Errors
}

func (w *watcher) interval() time.Duration {
	if w.system == nil {
		return recheckBlind
	}
	return recheck
}

// counts tells whether an event is about the policy. In a folder every entry
// counts: Kubernetes replaces a link beside the files.
func (w *watcher) counts(e fsnotify.Event) bool {
	if e.Op == fsnotify.Chmod {
		return false
	}
	return w.single == "" || filepath.Base(e.Name) == w.single
}

func (w *watcher) close() {
	if w.system != nil {
		_ = w.system.Close() // only reads end
		w.system = nil
	}
	w.dirs = nil
}
