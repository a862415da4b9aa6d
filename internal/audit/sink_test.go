//go:build !windows

package audit_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
)

// what goes wrong with the file of a log while it is written, and what repairs it.
var sinks = map[string]struct {
	breaks, repairs func(t *testing.T, path string)
}{
	"a pipe that nobody reads": {
		func(t *testing.T, path string) {
			move(t, path, path+".1")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	},
	"a folder in its place": {
		func(t *testing.T, path string) {
			move(t, path, path+".1")
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	},
	"its folder is gone": {
		func(t *testing.T, path string) {
			move(t, filepath.Dir(path), filepath.Dir(path)+".away")
			if err := os.WriteFile(filepath.Dir(path), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, path string) {
			if err := os.Remove(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			move(t, filepath.Dir(path)+".away", filepath.Dir(path))
		},
	},
}

// A log in required mode reports an error while its file cannot be written, and
// recovers by itself with everything that it kept. One in best-effort mode counts its
// losses.
func TestSinksThatBreak(t *testing.T) {
	for name, sink := range sinks {
		for _, mode := range []audit.Mode{audit.Required, audit.BestEffort} {
			t.Run(fmt.Sprintf("%s/%s", name, mode), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "log", "audit.jsonl")
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				synctest.Test(t, func(t *testing.T) {
					anchors := &keep{heads: make(map[string]audit.Head)}
					l, err := audit.Open(path, audit.Options{Mode: mode, Fsync: audit.FsyncNone, Key: audit.TestKey, Anchor: anchors.put})
					if err != nil {
						t.Fatal(err)
					}
					stop := run(t, l)
					add(t, l, "before")
					time.Sleep(2 * time.Second)
					sink.breaks(t, path)
					_ = l.Append(entry("meanwhile")) // best effort: given up; required: kept
					time.Sleep(3 * time.Second)
					synctest.Wait()
					if err := l.Healthy(); (err != nil) != (mode == audit.Required) {
						t.Errorf("while it is broken: %v", err)
					}
					sink.repairs(t, path)
					_ = l.Append(entry("after"))
					time.Sleep(3 * time.Second)
					synctest.Wait()
					if err := l.Healthy(); err != nil {
						t.Errorf("repaired: %v", err)
					}
					add(t, l, "last")
					stop()
					if err := l.Close(); err != nil {
						t.Error(err)
					}
					stats := l.Stats()
					if lost := stats.Lost > 0; lost != (mode == audit.BestEffort) {
						t.Errorf("stats %+v", stats)
					}
					report := verify(t, path, anchors.all())
					if len(report.Findings) > 0 || report.Calls+stats.Lost != 4 || report.Lost != stats.Lost {
						t.Errorf("%+v of %+v", report, stats)
					}
				})
			})
		}
	}
}

// A file that is repeatedly moved away under load loses nothing, and neither does
// rotation by size and age.
func TestRotationUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	anchors := &keep{heads: make(map[string]audit.Head)}
	l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncNone, Key: audit.TestKey, RotateSize: 64 << 10, Anchor: anchors.put})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, l)
	const callers, each = 8, 400
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for i := range each {
				e := entry(fmt.Sprintf("%d/%d", g, i))
				if err := l.Begin(e); err != nil {
					t.Error(err)
				}
				if err := l.End(e); err != nil {
					t.Error(err)
				}
				if g == 0 && i%50 == 0 {
					err := os.Rename(path, fmt.Sprintf("%s.moved%d", path, i))
					if err != nil && !errors.Is(err, fs.ErrNotExist) { // the log may be putting it aside just now
						t.Error(err)
					}
					if err := l.Reopen(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	stop()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, path, anchors.all()); len(got.Findings) > 0 || got.Calls != callers*each || got.Open != 0 || got.Files < 8 {
		t.Errorf("%+v", got)
	}
}

// Rotated files are removed when they are old enough, and the chain says so.
func TestOldFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncNone, Key: audit.TestKey, RotateAge: time.Hour, Keep: 5 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		for i := range 10 {
			add(t, l, fmt.Sprint(i))
			time.Sleep(time.Hour + time.Minute)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	files, err := audit.Files(path)
	if err != nil || len(files) < 3 || len(files) > 7 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if got := verify(t, path, nil); len(got.Findings) > 0 {
		t.Errorf("%+v", got)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, path, nil); len(got.Findings) == 0 {
		t.Error("that another file is gone is not found")
	}
}

// A disk that is full, as the system says it.
func TestFileSizeLimit(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	small := before
	small.Cur = 8 << 10
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := audit.Open(path, audit.Options{Fsync: audit.FsyncAlways, Key: audit.TestKey})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	var refused error
	n := 0
	for ; n < 1000 && refused == nil; n++ {
		refused = l.Append(entry(fmt.Sprint(n)))
	}
	back := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)
	if refused == nil || back != nil {
		t.Fatal(refused, back)
	}
	if err := l.Reopen(); err != nil { // which Run does by itself
		t.Fatal(err)
	}
	add(t, l, "last")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, path, nil); len(got.Findings) > 0 || got.Calls != uint64(n)+1 || got.Torn == 0 {
		t.Errorf("%d calls: %+v", n, got)
	}
}
