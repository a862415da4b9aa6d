package files_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/native/plugins/files"
)

// Pages are whole, in order, and without doubles, however large the folder is.
func TestList(t *testing.T) {
	dir := folder(t)
	var want []string
	for i := range 5000 {
		name := fmt.Sprintf("n%d", i*7919%5000)
		want = append(want, name)
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	slices.Sort(want)
	tree := open(t, files.Rules{Roots: []string{dir}})
	for _, most := range []int{1, 7, 1000, 4999, 5000, 5001} {
		var got []string
		after := ""
		for {
			d, err := tree.OpenDir(dir)
			must(t, err)
			page, err := d.List(t.Context(), after, most)
			d.Close()
			must(t, err)
			for _, e := range page.Entries {
				got = append(got, e.Name)
			}
			if len(page.Entries) > most || page.More && len(page.Entries) != most {
				t.Fatalf("a page of %d entries, of %d", len(page.Entries), most)
			}
			if !page.More || most < 100 && len(got) >= 20*most {
				break
			}
			after = got[len(got)-1]
		}
		if diff := cmp.Diff(want[:len(got)], got); diff != "" || most > 100 && len(got) != len(want) {
			t.Errorf("pages of %d: %d names: %s", most, len(got), diff)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := tree.OpenDir(dir)
	must(t, err)
	defer d.Close()
	if _, err := d.List(ctx, "", 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestListKinds(t *testing.T) {
	dir := folder(t)
	put(t, dir, "a", "b/")
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "c")))
	names := 0
	if runtime.GOOS == "linux" {
		for _, name := range []string{"d\n", "e\xff", "f\x1b"} {
			must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
			names++
		}
	}
	d, err := open(t, files.Rules{Roots: []string{dir}}).OpenDir(dir)
	must(t, err)
	defer d.Close()
	page, err := d.List(t.Context(), "", 10)
	must(t, err)
	var got []string
	for _, e := range page.Entries {
		got = append(got, fmt.Sprintf("%s %s %d", e.Name, e.Kind, e.Size))
	}
	if diff := cmp.Diff([]string{"a file 1", "b folder 0", "c link 0"}, got); diff != "" || page.Unnamed != names || page.More {
		t.Errorf("%s, %+v", diff, page)
	}
}
