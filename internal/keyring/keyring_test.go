package keyring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	ring "github.com/zalando/go-keyring"

	"github.com/toolgate/toolgate/config/secret"
)

// fake is a key ring in memory; err is its answer to everything, if set.
type fake struct {
	mu     sync.Mutex
	values map[string]string
	err    error
	most   int // the longest value; 0 is no bound
}

func (f *fake) Get(service, name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.values[service+"/"+name]
	if f.err == nil && !ok {
		return "", ring.ErrNotFound
	}
	return v, f.err
}

func (f *fake) Set(service, name, value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.most > 0 && len(value) > f.most {
		return ring.ErrSetDataTooBig
	}
	if f.err == nil {
		f.values[service+"/"+name] = value
	}
	return f.err
}

func (f *fake) Delete(service, name string) error {
	_, err := f.Get(service, name)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.values, service+"/"+name)
	return err
}

// near is the way to a key ring in this process.
type near struct{}

func (near) open() error { return nil }
func (near) close()      {}

func direct() link { return near{} }

// with returns a store whose key ring is a fake one.
func with(t *testing.T, dir string, choice Choice, f *fake) *Store {
	t.Helper()
	s, err := New(dir, string(choice))
	if err != nil {
		t.Fatal(err)
	}
	s.system = newSystem(f, direct)
	return s
}

func sealed(t *testing.T) *Store {
	t.Helper()
	s, err := New(t.TempDir(), string(File))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSealed(t *testing.T) {
	t.Parallel()
	s := sealed(t)
	ctx := t.Context()
	if names, err := s.Names(); err != nil || len(names) != 0 {
		t.Errorf("at first: %v, %v", names, err)
	}
	if _, err := s.Get(ctx, "TOKEN"); !errors.Is(err, ErrNone) {
		t.Errorf("without a file: %v", err)
	}
	if err := s.Remove(ctx, "TOKEN"); !errors.Is(err, ErrNone) {
		t.Errorf("remove without a file: %v", err)
	}
	for name, value := range map[string]string{
		"TOKEN": "first", "my.key-2": "two\nlines\n", "_": strings.Repeat("x", MaxValue), "9": "ünï ${TOKEN} \"'",
	} {
		place, err := s.Set(ctx, name, value)
		if err != nil || place != Place(s.Path()) {
			t.Fatalf("%s: %q, %v", name, place, err)
		}
		if got, err := s.Get(ctx, name); err != nil || got != value {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := s.Set(ctx, "TOKEN", "second-value"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(ctx, "TOKEN"); err != nil || got != "second-value" {
		t.Errorf("after a change: %q, %v", got, err)
	}
	names, err := s.Names()
	if diff := cmp.Diff([]string{"9", "TOKEN", "_", "my.key-2"}, names); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, name := range []string{fileName, keyName} {
		path := filepath.Join(s.dir, name)
		info, err := os.Stat(path)
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		data, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(data), "second-value") {
			t.Errorf("%s shows a secret, or %v", name, err)
		}
	}
	if err := s.Remove(ctx, "TOKEN"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "TOKEN"); !errors.Is(err, ErrNone) {
		t.Errorf("after it was removed: %v", err)
	}
}

// No name reaches a file, a key ring or a message as anything but a name.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := sealed(t)
	for _, name := range []string{
		"", " ", ".", "..", "../x", "a/b", `a\b`, "-rf", ".x", "a b", "a\nb", "a\x00b", "a=b", "a:b", "${A}", "a}", "ä", "\x1b[31m", "a\xffb", "@", "[", "`", "{",
		strings.Repeat("a", secret.MaxName+1),
	} {
		_, getErr := s.Get(t.Context(), name)
		_, setErr := s.Set(t.Context(), name, "value")
		removeErr := s.Remove(t.Context(), name)
		for what, err := range map[string]error{"get": getErr, "set": setErr, "remove": removeErr} {
			if err == nil || !strings.Contains(err.Error(), "is no name of a secret") || strings.ContainsAny(err.Error(), "\x1b\n\x00") {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 0 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	for _, value := range []string{"", "a\x00b", strings.Repeat("x", MaxValue+1)} {
		if _, err := s.Set(t.Context(), "NAME", value); err == nil || strings.Contains(err.Error(), "a\x00b") {
			t.Errorf("a value of %d bytes: %v", len(value), err)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		choice Choice
		ring   *fake
		place  string // "" is an error
		err    string
	}{
		{"a key ring", Auto, &fake{}, "system", ""},
		{"a key ring, and nothing else", System, &fake{}, "system", ""},
		{"no key ring", Auto, &fake{err: fmt.Errorf("%w: none", errNoRing)}, "file", ""},
		{"another system", Auto, &fake{err: ring.ErrUnsupportedPlatform}, "file", ""},
		{"no key ring, and nothing else", System, &fake{err: errNoRing}, "", "has no key ring"},
		{"a key ring that refuses", Auto, &fake{err: errors.New("dismissed")}, "", "dismissed; unlock the key ring, or set TOOLGATE_KEYRING=file"},
		{"too long for the key ring", Auto, &fake{most: 3}, "file", ""},
		{"too long, and nothing else", System, &fake{most: 3}, "", "too big"},
		{"the file, whatever there is", File, &fake{}, "file", ""},
	} {
		f := tt.ring
		f.values = map[string]string{}
		s := with(t, t.TempDir(), tt.choice, f)
		place, err := s.Set(t.Context(), "NAME", "value")
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v", tt.name, err)
			}
			if names, err := s.Names(); err != nil || len(names) != 0 {
				t.Errorf("%s: %v, %v after an error", tt.name, names, err)
			}
			continue
		}
		if want := map[string]Place{"system": InSystem, "file": Place(s.Path())}[tt.place]; err != nil || place != want {
			t.Errorf("%s: %q, %v, want %q", tt.name, place, err, want)
		}
		if got, err := s.Get(t.Context(), "NAME"); err != nil || got != "value" {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
		if (len(f.values) == 1) != (tt.place == "system") {
			t.Errorf("%s: the key ring has %v", tt.name, f.values)
		}
		if err := s.Remove(t.Context(), "NAME"); err != nil || len(f.values) != 0 {
			t.Errorf("%s: removed: %v, and the key ring has %v", tt.name, err, f.values)
		}
	}
	if _, err := New(t.TempDir(), "none"); err == nil || !strings.Contains(err.Error(), "write auto, system or file") {
		t.Errorf("another choice: %v", err)
	}
}

// A secret stays where it was put, whatever the key ring does later.
func TestChangedPlaces(t *testing.T) {
	t.Parallel()
	dir, f := t.TempDir(), &fake{values: map[string]string{}}
	ctx := t.Context()
	get := func(s *Store, want, fault string) {
		t.Helper()
		switch got, err := s.Get(ctx, "NAME"); {
		case fault == "" && (err != nil || got != want):
			t.Errorf("got %q, %v, want %q", got, err, want)
		case fault != "" && (err == nil || !strings.Contains(err.Error(), fault)):
			t.Errorf("got %q, %v, want the error %q", got, err, fault)
		}
	}
	auto, file := with(t, dir, Auto, f), with(t, dir, File, f)
	if _, err := auto.Set(ctx, "NAME", "in the ring"); err != nil {
		t.Fatal(err)
	}
	get(file, "", "toolgate secret set NAME")
	if err := file.Remove(ctx, "NAME"); !errors.Is(err, errNotAsked) {
		t.Errorf("removed without the key ring: %v", err)
	}
	f.err = errNoRing
	get(auto, "", "it is to be in the key ring of this system")
	if err := auto.Remove(ctx, "NAME"); !errors.Is(err, errNoRing) {
		t.Errorf("removed without the key ring: %v", err)
	}
	if _, err := auto.Set(ctx, "NAME", "sealed"); err != nil {
		t.Fatal(err)
	}
	f.err = nil
	get(auto, "sealed", "")
	if err := auto.Remove(ctx, "NAME"); err != nil || len(f.values) != 0 {
		t.Errorf("%v, and the key ring has %v", err, f.values)
	}
	// What another program has put into the key ring is found, and can be removed.
	f.values[Service+"/NAME"] = "of another program"
	get(auto, "of another program", "")
	get(file, "", ErrNone.Error())
	if err := auto.Remove(ctx, "NAME"); err != nil || len(f.values) != 0 {
		t.Errorf("%v, and the key ring has %v", err, f.values)
	}
}

func TestConcurrentSets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const writers, each = 8, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s, err := New(dir, string(File)) // as processes of their own
			for i := range each {
				if err == nil {
					_, err = s.Set(t.Context(), fmt.Sprintf("NAME_%d_%d", w, i), fmt.Sprint("value ", w, i))
				}
				if err == nil {
					_, err = s.Set(t.Context(), "SHARED", fmt.Sprint("value ", w))
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s, err := New(dir, string(File))
	if err != nil {
		t.Fatal(err)
	}
	names, err := s.Names()
	if err != nil || len(names) != writers*each+1 {
		t.Fatalf("%d names, %v", len(names), err)
	}
	for w := range writers {
		for i := range each {
			if got, err := s.Get(t.Context(), fmt.Sprintf("NAME_%d_%d", w, i)); err != nil || got != fmt.Sprint("value ", w, i) {
				t.Errorf("%d %d: %q, %v", w, i, got, err)
			}
		}
	}
	if got, err := s.Get(t.Context(), "SHARED"); err != nil || !strings.HasPrefix(got, "value ") {
		t.Errorf("the shared one: %q, %v", got, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 3 { // the file, its lock and the key
		t.Errorf("left: %v, %v", left, err)
	}
}

// Files that are damaged, foreign or open to others are refused with what to do.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		make func(t *testing.T, s *Store)
		want string
	}{
		{"no JSON", func(t *testing.T, s *Store) { write(t, s.Path(), "{", 0o600) }, "is damaged"},
		{"empty", func(t *testing.T, s *Store) { write(t, s.Path(), "", 0o600) }, "is damaged"},
		{"an unknown field", func(t *testing.T, s *Store) { write(t, s.Path(), `{"version":1,"secret":{}}`, 0o600) }, "is damaged"},
		{"a later version", func(t *testing.T, s *Store) { write(t, s.Path(), `{"version":2,"secrets":{}}`, 0o600) }, "another version"},
		{"no secrets", func(t *testing.T, s *Store) { write(t, s.Path(), `{"version":1,"secrets":null}`, 0o600) }, "another version"},
		{"a hostile name", func(t *testing.T, s *Store) {
			write(t, s.Path(), `{"version":1,"secrets":{"a\u001b[2J":{"set":"2026-01-02T03:04:05Z"}}}`, 0o600)
		}, "remove that entry"},
		{"too large", func(t *testing.T, s *Store) { write(t, s.Path(), strings.Repeat(" ", maxFile+1), 0o600) }, "may have"},
		{"a folder", func(t *testing.T, s *Store) {
			if err := errors.Join(os.Remove(s.Path()), os.Mkdir(s.Path(), 0o700)); err != nil {
				t.Fatal(err)
			}
		}, "no regular file"},
		{"the key is gone", func(t *testing.T, s *Store) {
			if err := os.Remove(filepath.Join(s.dir, keyName)); err != nil {
				t.Fatal(err)
			}
		}, "is gone; restore it"},
		{"the key is damaged", func(t *testing.T, s *Store) { write(t, filepath.Join(s.dir, keyName), "short", 0o600) }, "is damaged"},
		{"another key", func(t *testing.T, s *Store) {
			write(t, filepath.Join(s.dir, keyName), strings.Repeat("A", 43), 0o600)
		}, "sealed with another key"},
		{"a value under another name", func(t *testing.T, s *Store) {
			data, err := os.ReadFile(s.Path())
			if err != nil {
				t.Fatal(err)
			}
			write(t, s.Path(), strings.Replace(string(data), `"OTHER"`, `"NAME"`, 1), 0o600)
		}, "sealed with another key"},
	} {
		s := sealed(t)
		if _, err := s.Set(t.Context(), "OTHER", "value"); err != nil {
			t.Fatal(err)
		}
		if tt.name != "a value under another name" {
			if _, err := s.Set(t.Context(), "NAME", "value"); err != nil {
				t.Fatal(err)
			}
		}
		tt.make(t, s)
		if got, err := s.Get(t.Context(), "NAME"); err == nil || got != "" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// hangs is a key ring that answers when it is told to.
type hangs struct {
	fake
	calls  atomic.Int32
	answer chan struct{}
}

func (h *hangs) Get(service, name string) (string, error) {
	h.calls.Add(1)
	<-h.answer
	return h.fake.Get(service, name)
}

// A key ring that does not answer delays a configuration once, however many secrets it has.
func TestSilentRing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hangs{fake: fake{values: map[string]string{Service + "/A": "value"}}, answer: make(chan struct{})}
		s, err := New(t.TempDir(), "auto")
		if err != nil {
			t.Fatal(err)
		}
		s.system = newSystem(h, direct)
		began := time.Now()
		r := s.Reading()
		for _, name := range []string{"A", "B", "A"} {
			if _, err := r.Secret(name); err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "may be locked") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if took := time.Since(began); took != readTime || h.calls.Load() != 1 {
			t.Errorf("%d calls in %v", h.calls.Load(), took)
		}
		// Until the call ends, there is no second one.
		if _, err := s.Reading().Secret("A"); err == nil || h.calls.Load() != 1 {
			t.Errorf("%v, and %d calls", err, h.calls.Load())
		}
		close(h.answer)
		synctest.Wait()
		if got, err := s.Reading().Secret("A"); err != nil || got != "value" {
			t.Errorf("unlocked: %q, %v", got, err)
		}
	})
}

func TestReading(t *testing.T) {
	t.Parallel()
	s := sealed(t)
	if _, err := s.Set(t.Context(), "A", "value"); err != nil {
		t.Fatal(err)
	}
	r := s.Reading()
	if r.Files() != nil {
		t.Errorf("files before a secret: %v", r.Files())
	}
	if got, err := r.Secret("A"); err != nil || got != "value" {
		t.Errorf("%q, %v", got, err)
	}
	if err := s.Remove(context.Background(), "A"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Secret("A"); err != nil || got != "value" {
		t.Errorf("asked again: %q, %v", got, err)
	}
	if diff := cmp.Diff([]string{s.Path()}, r.Files()); diff != "" {
		t.Error(diff)
	}
}
