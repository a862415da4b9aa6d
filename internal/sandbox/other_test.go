//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"os"
	"testing"
)

// Nothing is enforced here, and that is what is said.
func TestNothingIsEnforced(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := Program{Path: self, Args: []string{"-test.run=^$"}}
	if _, err := Command(t.Context(), Policy{}, program); !errors.Is(err, ErrMissing) {
		t.Errorf("required: got %v", err)
	}
	if _, err := Confine(Policy{}); !errors.Is(err, ErrMissing) {
		t.Errorf("required of itself: got %v", err)
	}
	for _, mode := range []Mode{Auto, Off} {
		l, err := Available(Policy{Mode: mode})
		if err != nil || l.String() != "none" {
			t.Errorf("%s: got %v, %v", mode, l, err)
		}
		pr, err := Command(t.Context(), Policy{Mode: mode, Temp: true}, program)
		if err != nil {
			t.Fatal(err)
		}
		if err := pr.Start(); err != nil {
			t.Fatal(err)
		}
		if err := pr.Wait(); err != nil {
			t.Error(err)
		}
		if err := pr.Close(); err != nil {
			t.Error(err)
		}
	}
}
