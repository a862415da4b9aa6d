//go:build unix

package files_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/native/plugins/files"
)

var raceFor = flag.Duration("race-for", 300*time.Millisecond, "how long each race for a way out is run")

// race has several goroutines try while another one changes what they meet, and
// returns how often they tried.
func race(flip func(i int), try func(i int)) int64 {
	end := time.Now().Add(*raceFor)
	var tries atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; time.Now().Before(end); i++ {
			flip(i)
		}
	})
	for range 3 {
		all.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				try(i)
				tries.Add(1)
			}
		})
	}
	all.Wait()
	return tries.Load()
}

// become gives a name another meaning in one step.
func become(path, target string) {
	next := path + "~"
	_ = os.Remove(next)
	if os.Symlink(target, next) == nil {
		_ = os.Rename(next, path)
	}
}

// Links that are changed at the wrong moment lead neither out of the roots nor to
// what is forbidden: of a file, of the folder above it, and of one above that.
func TestRaceRead(t *testing.T) {
	dir := folder(t)
	put(t, dir, "in/safe/deep/file", "in/secret/deep/file", "out/deep/file")
	in := filepath.Join(dir, "in")
	tree := open(t, files.Rules{Roots: []string{in}, Forbidden: []string{in + "/secret"}})
	targets := []string{"safe", "secret", "../out", filepath.Join(dir, "out"), "safe"}
	fileTargets := []string{"safe/deep/file", "secret/deep/file", "../out/deep/file", "/etc/passwd"}
	var escapes, reads atomic.Int64
	tries := race(func(i int) {
		become(in+"/way", targets[i%len(targets)])
		become(in+"/file", fileTargets[i%len(fileTargets)])
	}, func(i int) {
		text, err := read(tree, in+[]string{"/way/deep/file", "/file"}[i%2])
		if err != nil {
			return
		}
		if reads.Add(1); text != "in/safe/deep/file" {
			escapes.Add(1)
		}
	})
	t.Logf("%d tries, %d files read, %d escapes", tries, reads.Load(), escapes.Load())
	if escapes.Load() > 0 || tries == 0 {
		t.Errorf("%d escapes", escapes.Load())
	}
}

// A folder that is swapped for a link, or moved, while a file is written in it or
// deleted from it takes the change nowhere else.
func TestRaceChange(t *testing.T) {
	dir := folder(t)
	put(t, dir, "in/secret/file", "in/secret/victim", "out/file", "out/victim", "in/a/file")
	in := filepath.Join(dir, "in")
	tree := open(t, files.Rules{Roots: []string{in}, Write: []string{in}, Forbidden: []string{in + "/secret"}})
	var written atomic.Int64
	tries := race(func(i int) {
		// A real folder and links take turns at the name.
		_ = os.Rename(in+"/a", in+"/aside")
		_ = os.Symlink([]string{"secret", "../out", filepath.Join(dir, "out")}[i%3], in+"/a")
		_ = os.Remove(in + "/a")
		_ = os.Rename(in+"/aside", in+"/a")
		become(in+"/a/victim", []string{"../secret/victim", "../../out/victim"}[i%2])
	}, func(i int) {
		name := fmt.Sprintf("%s/a/%s", in, []string{"file", "victim", "new"}[i%3])
		if i%4 == 3 {
			_ = tree.Remove(name)
		} else if _, err := tree.Write(name, files.Change{Data: []byte("pwned")}); err == nil {
			written.Add(1)
		}
	})
	t.Logf("%d tries, %d files written", tries, written.Load())
	for _, name := range []string{"in/secret/file", "in/secret/victim", "out/file", "out/victim"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != name {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	for _, name := range []string{"in/secret", "out"} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		must(t, err)
		for _, e := range entries {
			if !strings.Contains("file victim", e.Name()) {
				t.Errorf("%s/%s was made", name, e.Name())
			}
		}
	}
}

// A folder that is swapped while it is listed shows nothing of another one.
func TestRaceList(t *testing.T) {
	dir := folder(t)
	put(t, dir, "in/safe/ok", "in/secret/hidden", "out/hidden")
	in := filepath.Join(dir, "in")
	tree := open(t, files.Rules{Roots: []string{in}, Forbidden: []string{in + "/secret"}})
	var shown atomic.Int64
	tries := race(func(i int) {
		become(in+"/way", []string{"safe", "secret", "../out"}[i%3])
	}, func(int) {
		d, err := tree.OpenDir(in + "/way")
		if err != nil {
			return
		}
		defer d.Close()
		if page, err := d.List(t.Context(), "", 10); err == nil && (len(page.Entries) != 1 || page.Entries[0].Name != "ok") {
			shown.Add(1)
		}
	})
	if shown.Load() > 0 || tries == 0 {
		t.Errorf("%d of %d listed another folder", shown.Load(), tries)
	}
}
