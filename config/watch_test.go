package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fakeNotifier stands for the system's notifications inside a synctest bubble.
type fakeNotifier struct {
	events chan fsnotify.Event
	errs   chan error
	fail   error
}

func (f *fakeNotifier) Add(string) error              { return f.fail }
func (f *fakeNotifier) Events() <-chan fsnotify.Event { return f.events }
func (f *fakeNotifier) Errors() <-chan error          { return f.errs }
func (f *fakeNotifier) Close() error                  { return nil }

// bubble runs a Watcher over one file with fake notifications; body changes the
// file and the time. The third result counts the calls.
func bubble(t *testing.T, fail error, body func(file string, n *fakeNotifier, calls *atomic.Int64)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(dir, "toolgate.yaml")
		write(t, file, "one")
		n := &fakeNotifier{events: make(chan fsnotify.Event), errs: make(chan error), fail: fail}
		calls := &atomic.Int64{}
		w := &Watcher{
			Files:    []string{file},
			OnChange: func(context.Context) []string { calls.Add(1); return nil },
			notify:   func() (notifier, error) { return n, nil },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		body(file, n, calls)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestWatchDebounces(t *testing.T) {
	bubble(t, nil, func(file string, n *fakeNotifier, calls *atomic.Int64) {
		expect := func(want int64, what string) {
			t.Helper()
			synctest.Wait()
			if calls.Load() != want {
				t.Errorf("%s: %d calls, want %d", what, calls.Load(), want)
			}
		}
		event := fsnotify.Event{Name: file, Op: fsnotify.Write}
		for i := range 5 {
			write(t, file, "two"[:1+i%3])
			n.events <- event
			time.Sleep(150 * time.Millisecond)
		}
		expect(0, "while the file does not rest")
		time.Sleep(60 * time.Millisecond)
		expect(1, "after it rested")

		n.events <- event
		time.Sleep(time.Second)
		expect(1, "an event without a change")

		write(t, file, "three")
		n.events <- fsnotify.Event{Name: filepath.Join(filepath.Dir(file), "other"), Op: fsnotify.Write}
		time.Sleep(time.Second)
		expect(1, "an event of another file")
		n.errs <- errors.New("overflow")
		time.Sleep(time.Second)
		expect(2, "lost events")

		write(t, file, "four")
		for range 30 {
			n.events <- event
			time.Sleep(100 * time.Millisecond)
		}
		expect(3, "a file that never rests")

		write(t, file, "five")
		time.Sleep(recheck)
		expect(4, "a change nobody reported")
	})
}

func TestWatchPolls(t *testing.T) {
	bubble(t, errors.New("too many watches"), func(file string, _ *fakeNotifier, calls *atomic.Int64) {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if calls.Load() != 0 {
			t.Errorf("%d calls without a change", calls.Load())
		}
		write(t, file, "two")
		time.Sleep(defaultPoll)
		synctest.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d calls after a change", calls.Load())
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(defaultPoll)
		synctest.Wait()
		if calls.Load() != 2 {
			t.Errorf("%d calls after the file was removed", calls.Load())
		}
	})
}

// watchReal runs a Watcher over real notifications. The function it returns
// waits for the next call.
func watchReal(t *testing.T, files ...string) (next func(what string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 100)
	subscribed := make(chan struct{}, 100)
	w := &Watcher{
		Files:    files,
		Debounce: time.Millisecond,
		OnChange: func(context.Context) []string { changed <- struct{}{}; return nil },
		notify: func() (notifier, error) {
			n, err := newSystemNotifier()
			subscribed <- struct{}{}
			return n, err
		},
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	<-subscribed
	return func(what string) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(recheck - 5*time.Second):
			t.Fatalf("%s was not noticed", what)
		}
	}
}

// settle rewrites a file until the watcher has noticed it, which shows that it
// has begun to watch.
func settle(t *testing.T, file string, next func(string)) {
	t.Helper()
	time.AfterFunc(100*time.Millisecond, func() { _ = os.WriteFile(file, []byte("settled"), 0o600) })
	next("the first change")
}

func TestWatchReal(t *testing.T) {
	dir := t.TempDir()
	file, env := filepath.Join(dir, "toolgate.yaml"), filepath.Join(dir, "x.env")
	write(t, file, "one")
	write(t, env, "A=1")
	next := watchReal(t, file, env)
	settle(t, file, next)

	write(t, env, "A=2")
	next("a file that the file names")

	for _, text := range []string{"two", "three"} {
		other := filepath.Join(dir, "toolgate.yaml.tmp")
		write(t, other, text)
		if err := os.Rename(other, file); err != nil {
			t.Fatal(err)
		}
		next("a replacement by rename")
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	next("a removal")
	write(t, file, "back")
	next("the return of the file")
}

// TestWatchConfigMap replaces a folder as Kubernetes does for a mounted
// ConfigMap: a link named ..data, swapped by rename.
func TestWatchConfigMap(t *testing.T) {
	dir := t.TempDir()
	generation := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "toolgate.yaml"), text)
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	generation("..1", "one")
	file := filepath.Join(dir, "toolgate.yaml")
	if err := os.Symlink("..data/toolgate.yaml", file); err != nil {
		t.Fatal(err)
	}
	next := watchReal(t, file)
	settle(t, filepath.Join(dir, "..1", "toolgate.yaml"), next)
	generation("..2", "two")
	next("the second generation")
	generation("..3", "three")
	next("the third generation")
	write(t, filepath.Join(dir, "..3", "toolgate.yaml"), "edited")
	next("an edit behind the links")
}

func TestWatchPoints(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.MkdirAll(at("releases/5"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, at("releases/5/f"), "x")
	for link, target := range map[string]string{"current": "releases/5", "loop": "loop", "file": at("current/f")} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string][]string{
		"current/f": {at("current/f"), at("current"), at("releases/5/f")},
		"file":      {at("file"), at("file"), at("current"), at("releases/5/f")},
		"none/x":    {at("none/x"), at("none/x")},
	} {
		if got := watchPoints(at(path)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	if got := watchPoints(at("loop")); len(got) > maxLinks+2 {
		t.Errorf("a loop gives %d points", len(got))
	}
}
