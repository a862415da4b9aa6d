package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string // in the error; empty for none
	}{
		{[]string{"-dry"}, ""},
		{[]string{"-dry", "-platforms", "linux/amd64,windows/arm64,linux/amd64"}, ""},
		{[]string{"-key", "k"}, ""},
		{nil, "a release is signed"},
		{[]string{"-dry", "-key", "k"}, "leave -key out"},
		{[]string{"-key", "k", "-platforms", "linux/amd64"}, "a release has all platforms"},
		{[]string{"-dry", "-platforms", "plan9/amd64"}, `"plan9/amd64" is none of`},
		{[]string{"-dry", "-platforms", "linux"}, `"linux" is none of`},
		{[]string{"-dry", "v1.2.3"}, `the argument "v1.2.3" is unknown`},
	} {
		var out bytes.Buffer
		s, err := read(t.Context(), append([]string{"-root", t.TempDir()}, tt.args...), &out)
		if tt.want == "" {
			if err != nil || !filepath.IsAbs(s.out) || s.out != filepath.Join(s.root, "out", "release") {
				t.Errorf("%q: %v, into %s", tt.args, err, s.out)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
	some, err := choose("linux/amd64,windows/arm64,linux/amd64")
	if err != nil || !slices.Equal(some, []platform{{"linux", "amd64"}, {"windows", "arm64"}}) {
		t.Errorf("%v, %v", some, err)
	}
}

// A folder is emptied only if a release made it.
func TestEmptied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := emptied(dir); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "old")
	write(t, old, "old")
	if err := emptied(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what an earlier release made is still there")
	}
	theirs := t.TempDir()
	write(t, filepath.Join(theirs, "letter"), "dear")
	if err := emptied(theirs); err == nil || !strings.Contains(err.Error(), "holds something that no release made") {
		t.Errorf("a folder of somebody else: %v", err)
	}
	if _, err := os.Stat(filepath.Join(theirs, "letter")); err != nil {
		t.Error(err)
	}
}

// The environment decides where the go command finds things, and not what it builds.
func TestBuildEnv(t *testing.T) {
	env := buildEnv([]string{"HOME=/h", "GOFLAGS=-tags=x", "CGO_ENABLED=1", "GOPROXY=off", "GOAMD64=v3"}, platform{"windows", "arm64"})
	for _, want := range []string{"HOME=/h", "GOPROXY=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0", "GOOS=windows", "GOARCH=arm64", "GOAMD64=v1"} {
		name, _, _ := strings.Cut(want, "=")
		n := 0
		for _, e := range env {
			if strings.HasPrefix(e, name+"=") {
				n++
			}
		}
		if n != 1 || !slices.Contains(env, want) {
			t.Errorf("%s is there %d times; want %s once", name, n, want)
		}
	}
}
