package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A release is the commit of a tag, without any change, which the changelog describes.
// Each step takes away the reason for the refusal before.
func TestInspect(t *testing.T) {
	dir := standin(t)
	for _, step := range []struct {
		name string
		do   func()
		want string // in the refusal; empty for none
	}{
		{"no tag", func() {}, "has no tag"},
		{"a tag that is no version", func() { must(t, dir, "git", "tag", "v1.2") }, "the tag v1.2 is no version"},
		{"a version that the changelog does not have", func() { must(t, dir, "git", "tag", "-d", "v1.2"); must(t, dir, "git", "tag", "v1.2.4") }, `no section "## [1.2.4]"`},
		{"a file that is not committed", func() {
			must(t, dir, "git", "tag", "-d", "v1.2.4")
			must(t, dir, "git", "tag", "v1.2.3")
			write(t, filepath.Join(dir, "new"), "x")
		}, "differs from its commit"},
		{"a release", func() { must(t, dir, "git", "clean", "--quiet", "--force") }, ""},
	} {
		step.do()
		s, err := inspect(t.Context(), dir, false)
		if step.want != "" {
			if err == nil || !strings.Contains(err.Error(), step.want) {
				t.Errorf("%s: %v", step.name, err)
			}
			continue
		}
		if err != nil || s.version != "1.2.3" || s.revision != strings.TrimSpace(must(t, dir, "git", "rev-parse", "HEAD")) || s.time.IsZero() {
			t.Errorf("%s: %+v, %v", step.name, s, err)
		}
	}
	write(t, filepath.Join(dir, "new"), "x")
	if s, err := inspect(t.Context(), dir, true); err != nil || s.version != dryVersion {
		t.Errorf("a rehearsal: %+v, %v", s, err)
	}
}

// A copy has the commit, and what differs from it: changes, new files, deleted ones,
// links and modes.
func TestCopySource(t *testing.T) {
	dir := standin(t)
	write(t, filepath.Join(dir, "README.md"), "changed")
	write(t, filepath.Join(dir, "new"), "new")
	if err := os.Remove(filepath.Join(dir, "LICENSE")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("new", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "new"), 0o755); err != nil {
		t.Fatal(err)
	}
	src, err := inspect(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	src.root = dir
	again, err := copySource(t.Context(), src, filepath.Join(t.TempDir(), "copy"))
	if err != nil {
		t.Fatal(err)
	}
	const status = "git status --porcelain && git rev-parse HEAD && ls -l new link | cut -c1-10 && readlink link"
	if a, b := must(t, dir, "sh", "-c", status), must(t, again.root, "sh", "-c", status); a != b || !strings.Contains(a, " D LICENSE") {
		t.Errorf("the copy is\n%s\nand its source\n%s", b, a)
	}
}
