package console

import (
	"encoding/json"
	"strings"
	"testing"
)

// JSON is indented for people, unless the spaces were more than the JSON.
func TestIndented(t *testing.T) {
	t.Parallel()
	nested := func(open, shut string, n int) string {
		return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n)
	}
	for in, want := range map[string]string{
		`{"a":[1],"b":"x y"}`:            "{\n  \"a\": [\n    1\n  ],\n  \"b\": \"x y\"\n}",
		`{"]}\"}":"\\"}`:                 "{\n  \"]}\\\"}\": \"\\\\\"\n}",
		`{"a":`:                          `{"a":`,
		"":                               "",
		nested("[", "]", 31):             nested("[", "]", 31),
		nested(`{"}]":`, "}", 9000):      nested(`{"}]":`, "}", 9000),
		nested(`{"\"}":`, "}", 6000):     nested(`{"\"}":`, "}", 6000),
		`"` + strings.Repeat("x", 1<<17): `"` + strings.Repeat("x", 1<<17),
	} {
		if got := indented(json.RawMessage(in)); got != want {
			t.Errorf("%.60q becomes %.200q (%d bytes)", in, got, len(got))
		}
	}
	lines := diffLines("--- a\n+++ b\n x\n-y\x00\n+z\n")
	if len(lines) != 5 || lines[2].Class != "" || lines[3] != (diffLine{"-y‹U+0000›", "bad"}) || lines[4].Class != "good" {
		t.Errorf("%+v", lines)
	}
}
