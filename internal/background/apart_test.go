package background

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestApart(t *testing.T) {
	t.Parallel()
	want := errors.New("no")
	if err := Apart(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
	if err := Apart(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := Apart(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("a function that has not returned has succeeded")
	}
}

// Whoever recovers panics of a call recovers this one too, and sees where it was.
func TestApartPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "too bad") || !strings.Contains(p, "apart_test.go") {
			t.Errorf("recovered %s", p)
		}
	}()
	err := Apart(func() error { panic("too bad") })
	t.Errorf("it returns %v", err)
}
