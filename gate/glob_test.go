package gate_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
)

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		glob, name string
		want       bool
	}{
		{"", "", false},
		{"", "a", false},
		{"*", "", true},
		{"*", "gh__x", true},
		{"gh__*", "gh__x", true},
		{"gh__*", "gh__", true},
		{"gh__*", "gl__x", false},
		{"*__read_*", "fs__read_file", true},
		{"*__read_*", "fs__unread", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"A", "a", false},
		{"files+file://**", "files+file:///a/b", true},
		{"[ab]", "a", false},
		{"[ab]", "[ab]", true},
		{`\*`, "*", false},
		{"*a*b", "aab", true},
		{"*ab", "aabab", true},
		{"a*", "ba", false},
	} {
		if got := gate.Glob(tt.glob).Match(tt.name); got != tt.want {
			t.Errorf("%q on %q: %t", tt.glob, tt.name, got)
		}
	}
}

func TestGlobTakesBoundedTime(t *testing.T) {
	glob := gate.Glob(strings.Repeat("a*", 200) + "b")
	done := make(chan bool, 1)
	go func() { done <- glob.Match(strings.Repeat("a", 20_000)) }()
	select {
	case got := <-done:
		if got {
			t.Error("matches")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("does not end")
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("gh__*", "gh__x")
	f.Add("*a?b*", "xxaybz")
	f.Fuzz(func(t *testing.T, glob, name string) {
		if len(glob) > 50 || len(name) > 200 {
			return
		}
		pattern := regexp.QuoteMeta(glob)
		for i := 0; i < len(pattern); i++ {
			if pattern[i] >= 0x80 {
				return // regexp counts runes
			}
		}
		for i := range name {
			if name[i] >= 0x80 {
				return
			}
		}
		pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, `\*`, `.*`), `\?`, `.`)
		want := glob != "" && regexp.MustCompile(`(?s)\A`+pattern+`\z`).MatchString(name)
		if got := gate.Glob(glob).Match(name); got != want {
			t.Errorf("%q on %q: %t", glob, name, got)
		}
	})
}
