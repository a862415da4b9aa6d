package output

import "testing"

func TestShort(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1.0k", 9949: "9.9k", 10_000: "10k", 999_999: "999k", 1_000_000: "1.0M", 25_500_000: "25.5M"} {
		if got := Short(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for s, want := range map[float64]string{0: "0 ms", 0.0015: "1 ms", 0.9999: "999 ms", 1: "1.0 s", 59.94: "59.9 s", 60: "1m0s", 3725.4: "1h2m5s"} {
		if got := Seconds(s); got != want {
			t.Errorf("%v s: %s, want %s", s, got, want)
		}
	}
	for in, want := range map[string]string{"": "", "one\ntwo": "one", "one\r\ntwo": "one", "ééééé": "ééééé", "éééééé": "éééé…"} {
		if got := FirstLine(in, 5); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
