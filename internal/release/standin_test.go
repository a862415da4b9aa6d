package main

import (
	"os"
	"path/filepath"
	"testing"
)

// standin returns a repository with a program of a few lines, in one commit. It is built
// in a moment.
func standin(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repository")
	if err := os.CopyFS(dir, os.DirFS("testdata/standin")); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "git", "init", "--quiet")
	commit(t, dir)
	return dir
}

// commit commits everything in a repository.
func commit(t *testing.T, dir string) {
	t.Helper()
	must(t, dir, "git", "add", "--all")
	must(t, dir, "git", "-c", "user.name=tester", "-c", "user.email=tester@example.com", "commit", "--quiet", "--allow-empty", "--message", "a change")
}

// must runs a program that has to succeed, and returns its output.
func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := run(t.Context(), dir, nil, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
