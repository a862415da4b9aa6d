package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config/tree"
)

// Each mistake of the file is found, at its line, and nothing else is.
func TestMistakesOfSteps(t *testing.T) {
	t.Parallel()
	const path = "testdata/bad/steps.yaml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[int]bool)
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(line, "# wrong") {
			want[i+1] = true
		}
	}
	if len(want) < 50 {
		t.Errorf("the file has %d mistakes", len(want))
	}
	_, err = Load(path, testOptions())
	if err == nil {
		t.Fatal("all of it was taken")
	}
	found := make(map[int]string)
	for _, e := range flatten(err) {
		one, ok := errors.AsType[*tree.Error](e)
		if !ok {
			t.Fatal(e)
		}
		if before := found[one.Line]; before != "" {
			t.Errorf("line %d has two problems: %s and %s", one.Line, before, one)
		}
		found[one.Line] = fmt.Sprint(one)
		if !want[one.Line] {
			t.Errorf("line %d has no mistake: %s", one.Line, one)
		}
	}
	for line := range want {
		if found[line] == "" {
			t.Errorf("line %d: nothing is found", line)
		}
	}
}
