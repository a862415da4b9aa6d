package units

import "testing"

func TestUnits(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "512": 512, "64KiB": 64 << 10, "16 MiB": 16 << 20, "1GiB": 1 << 30, "10MB": 10e6, "3kB": 3000, "7B": 7} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "1 TB", "9223372036854775807KiB", "99999999999999999999", "0x10"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d", text, got)
		}
	}
	for size, want := range map[Size]string{0: "0B", 1000: "1000B", 1 << 20: "1MiB", 3 << 10: "3KiB", 5 << 30: "5GiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d renders %q, want %q", size, got, want)
		}
	}
	for text, want := range map[string]string{"90d": "2160h0m0s", "1h30m": "1h30m0s", "500ms": "500ms"} {
		if got, err := ParseDuration(text); err != nil || got.String() != want {
			t.Errorf("ParseDuration(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "1.5d", "-1d", "999999999999d", "1w"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %s", text, got)
		}
	}
}
