package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/tree"
)

// TestBad compares the message of each bad file with the .want file beside it.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if filepath.Ext(path) == ".want" {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			c, err := Load(path, testOptions())
			if err == nil {
				t.Fatal("accepted")
			}
			if c != nil {
				t.Error("a Config came with the error")
			}
			for _, e := range flatten(err) {
				if ce, ok := errors.AsType[*tree.Error](e); !ok {
					t.Errorf("%v is no *Error", e)
				} else if ce.File != path || ce.Line < 1 {
					t.Errorf("%v has the place %q:%d", e, ce.File, ce.Line)
				}
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "secret-key-not-a-hash") {
				t.Error("the message repeats a secret")
			}
			got := err.Error() + "\n"
			golden := path + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("other messages than in %s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// flatten lists the errors that errors.Join put together.
func flatten(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
