package httpfield_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/httpfield"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]http.Header{
		"\r\n":                               {},
		"a: b\r\nHost: x\r\nA:\tc \r\n\r\n":  {"A": {"b", "c"}},
		"content-type: x\r\n\r\n":            {"Content-Type": {"x"}},
		"":                                   nil,
		"a: b\r\n":                           nil, // without an end
		"a: b":                               nil,
		"a: b\r\n\r\nmore":                   nil,
		"a : b\r\n\r\n":                      nil,
		"a\r\n\r\n":                          nil,
		": b\r\n\r\n":                        nil,
		"a: b\r\n c\r\n\r\n":                 nil, // continued
		"a: b\nc: d\r\n\r\n":                 nil,
		"a: \x00\r\n\r\n":                    nil,
		"a: b\r\nRefused: c\r\nd: e\r\n\r\n": nil,
	} {
		got, ok := httpfield.Parse(text, func(name, _ string) (keep, plain bool) { return name != "Host", name != "Refused" })
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
			t.Errorf("%q: %v (-want +got):\n%s", text, ok, diff)
		}
	}
}

func TestLength(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "007": 7, "999999999999999999": 999999999999999999, "": -1, "1000000000000000000": -1, "+1": -1, "-1": -1, "1 ": -1, "1,1": -1, "0x1": -1, "１": -1,
	} {
		if got, ok := httpfield.Length(text); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}
