package result

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/proxy/redact"
)

// TestSettingsOver: what a level says counts before a wider one, key by key;
// values and patterns add up.
func TestSettingsOver(t *testing.T) {
	yes, no := true, false
	pattern := func(name string) []redact.Pattern { return []redact.Pattern{{Name: name, Match: "x"}} }
	wide := Settings{
		ValidateOutput: "warn", MaxBytes: 4096, Larger: "keep",
		Redact: redact.Settings{Secrets: &yes, Tokens: &yes, Values: []secret.Text{"wide"}, Patterns: pattern("wide")},
	}
	own := Settings{
		ValidateOutput: "off", MaxBytes: 8192, Larger: "cut",
		Redact: redact.Settings{Secrets: &no, Tokens: &no, Values: []secret.Text{"own"}, Patterns: pattern("own")},
	}
	both := own
	both.Redact.Values, both.Redact.Patterns = []secret.Text{"wide", "own"}, append(pattern("wide"), pattern("own")...)
	for _, tt := range []struct{ narrow, wide, want Settings }{
		{Settings{}, Settings{}, Settings{}},
		{Settings{}, wide, wide},
		{own, Settings{}, own},
		{own, wide, both},
		{Settings{MaxBytes: 8192}, wide, func() Settings { r := wide; r.MaxBytes = 8192; return r }()},
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
