package depcheck_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// required is a requirement of a go.mod file.
var required = regexp.MustCompile(`(?m)^\s*(?:require )?([a-z0-9.-]+\.[a-z]+/\S+) v(\d+)\.(\d+)\.(\d+)`)

// requirements are the versions of the modules that a go.mod file requires.
func requirements(t *testing.T, path string) map[string][3]int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][3]int{}
	for _, m := range required.FindAllStringSubmatch(string(text), -1) {
		var v [3]int
		for i := range v {
			if v[i], err = strconv.Atoi(m[2+i]); err != nil {
				t.Fatal(err)
			}
		}
		out[m[1]] = v
	}
	return out
}

// The module with the tests on a real SpiceDB uses this one. Go builds nothing of it once it
// requires less than this one does.
func TestModuleOfSpiceDBKeepsUp(t *testing.T) {
	root := filepath.Join("..", "..")
	own := requirements(t, filepath.Join(root, "go.mod"))
	its := requirements(t, filepath.Join(root, "gate", "spicedb", "realtest", "go.mod"))
	shared := 0
	for path, want := range own {
		got, ok := its[path]
		if !ok {
			continue // it does not need that one
		}
		shared++
		for i := range want {
			if got[i] > want[i] {
				break
			}
			if got[i] < want[i] {
				t.Errorf("gate/spicedb/realtest requires %s %v, and this module %v; run go -C gate/spicedb/realtest mod tidy", path, got, want)
				break
			}
		}
	}
	if shared < 10 {
		t.Errorf("%d requirements are compared; their form in go.mod is another", shared)
	}
}
