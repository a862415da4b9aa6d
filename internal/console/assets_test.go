package console

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// maxAssets bounds what a browser loads, gzipped, in bytes.
const maxAssets = 60 << 10

func TestAssetsAreSmall(t *testing.T) {
	t.Parallel()
	total := 0
	for name := range sums() {
		text, err := files.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if name != "LICENSES.txt" { // no page loads it
			total += b.Len()
		}
	}
	t.Logf("%d bytes gzipped", total)
	if total == 0 || total > maxAssets {
		t.Errorf("a browser loads %d bytes; at most %d are allowed", total, maxAssets)
	}
}

// inline is what the policy of the pages would not let run.
var inline = regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|hx-vals='?js:`)

func TestTemplatesHaveNothingInline(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := inline.FindString(string(text)); found != "" {
			t.Errorf("%s has %q", name, found)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Error(policy)
	}
}
