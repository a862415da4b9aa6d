//go:build amd64 || arm64

package shim

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func example() Plan {
	return Plan{
		Probe: 1, Program: 2, Unnamed: 3, Path: "/bin/true", Argv: []string{"true", ""}, Env: []string{"A=b\n"}, Dir: "/",
		Keep: 4, Report: -1, Gate: 13, NewRoot: "/tmp", Proc: 5, MaxPID: 6, Landlock: 7, Seccomp: 8, Privilege: 9,
		Network: FullNetwork, Listen: 10, NoProcesses: 11, Alone: 12,
		Grants: []Grant{{"/usr", Read | Run}}, Links: []Link{{"/bin", "usr/bin"}}, Limits: []Limit{{1, 2, -1}},
	}
}

func TestPlanIsReadAsItWasWritten(t *testing.T) {
	for _, want := range []Plan{{}, example()} {
		var got Plan
		if err := got.decode(want.Encode()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestPlanThatWasCut(t *testing.T) {
	p := example()
	data := p.Encode()
	for n := range data {
		if err := new(Plan).decode(data[:n]); err == nil {
			t.Fatalf("the first %d bytes were taken", n)
		}
	}
	if err := new(Plan).decode(append(data, 0)); err == nil {
		t.Error("a byte too much was taken")
	}
}

func FuzzPlan(f *testing.F) {
	p := example()
	f.Add(p.Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var p, q Plan
		if p.decode(data) != nil {
			return
		}
		if err := q.decode(p.Encode()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, q); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInside(t *testing.T) {
	for _, tt := range []struct {
		path, folder string
		want         bool
	}{
		{"/a", "/a", true},
		{"/a/b", "/a", true},
		{"/ab", "/a", false},
		{"/", "/a", false},
		{"/a", "/", true},
		{"/a", "/a/b", false},
	} {
		if got := Inside(tt.path, tt.folder); got != tt.want {
			t.Errorf("Inside(%q, %q) = %t", tt.path, tt.folder, got)
		}
	}
}

// What a package imports is initialised before it. This one waits for nothing that a
// process does not need anyhow, and so is entered before the rest of a program.
func TestImports(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains([]string{"errors", "runtime", "syscall", "unsafe"}, path) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
