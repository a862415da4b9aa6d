package raced

import "testing"

func TestTimes(t *testing.T) {
	want := 2
	if On {
		want = 9
	}
	if got := Times(9, 2); got != want {
		t.Errorf("%d times, want %d", got, want)
	}
}
