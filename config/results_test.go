package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/secret"
)

// TestResultsOver: what a level says counts before a wider one, key by key;
// values and patterns add up.
func TestResultsOver(t *testing.T) {
	yes, no := true, false
	pattern := func(name string) []RedactPattern { return []RedactPattern{{Name: name, Match: "x"}} }
	wide := Results{
		ValidateOutput: "warn", MaxBytes: 4096, Larger: "keep",
		Redact: Redact{Secrets: &yes, Tokens: &yes, Values: []secret.Text{"wide"}, Patterns: pattern("wide")},
	}
	own := Results{
		ValidateOutput: "off", MaxBytes: 8192, Larger: "cut",
		Redact: Redact{Secrets: &no, Tokens: &no, Values: []secret.Text{"own"}, Patterns: pattern("own")},
	}
	both := own
	both.Redact.Values, both.Redact.Patterns = []secret.Text{"wide", "own"}, append(pattern("wide"), pattern("own")...)
	for _, tt := range []struct{ narrow, wide, want Results }{
		{Results{}, Results{}, Results{}},
		{Results{}, wide, wide},
		{own, Results{}, own},
		{own, wide, both},
		{Results{MaxBytes: 8192}, wide, func() Results { r := wide; r.MaxBytes = 8192; return r }()},
	} {
		got := tt.narrow.Over(tt.wide)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%+v over %+v (-want +got):\n%s", tt.narrow, tt.wide, diff)
		}
		if got.Written() != (tt.narrow.Written() || tt.wide.Written()) {
			t.Errorf("%+v: written %v", got, got.Written())
		}
	}
	if got := wide.Over(own); len(wide.Redact.Values) != 1 || len(own.Redact.Values) != 1 || len(got.Redact.Values) != 2 {
		t.Error("a level was changed")
	}
}

// TestResultsAreShownWithoutSecrets: what is to be taken out is not printed.
func TestResultsAreShownWithoutSecrets(t *testing.T) {
	c := parse(t, "x.yaml", `toolgate: { results: { redact: { values: ["${DATABASE_URL}"] } } }`, testOptions())
	if got := c.Toolgate.Results.Redact.Values; len(got) != 1 || got[0].Reveal() != "postgres://db" {
		t.Errorf("got %q", got)
	}
	raw, err := c.Toolgate.Results.Redact.Values[0].MarshalJSON()
	if err != nil || strings.Contains(string(raw), "postgres") {
		t.Errorf("shown as %s, %v", raw, err)
	}
}
