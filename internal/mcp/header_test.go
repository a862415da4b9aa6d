package mcp_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

// TestHeaderValues starts with the examples of the specification (2026-07-28
// streamable HTTP, Value Encoding).
func TestHeaderValues(t *testing.T) {
	for text, want := range map[string]string{
		"us-west1":           "us-west1",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",

		"":                           "",
		"a b\tc":                     "a b\tc",
		"\ta":                        "=?base64?CWE=?=",
		"a ":                         "=?base64?YSA=?=",
		" ":                          "=?base64?IA==?=",
		"\x7f":                       "=?base64?fw==?=",
		"\x00":                       "=?base64?AA==?=",
		"a\r\nX: y":                  "=?base64?YQ0KWDogeQ==?=",
		"=?base64??=":                "=?base64?PT9iYXNlNjQ/Pz0=?=",
		"=?base64?=":                 "=?base64?PT9iYXNlNjQ/PQ==?=", // begins and ends so, if with the same mark
		"=?BASE64?YQ==?=":            "=?BASE64?YQ==?=",             // the markers are case-sensitive
		"=?base64?a":                 "=?base64?a",
		"a?=":                        "a?=",
		"x=?base64?YQ==?=":           "x=?base64?YQ==?=",
		"file:///projects/a.json":    "file:///projects/a.json",
		"!\"#$%&'()*+,-./:;<=>?@~^`": "!\"#$%&'()*+,-./:;<=>?@~^`",
	} {
		got := mcp.EncodeHeaderValue(text)
		if got != want {
			t.Errorf("EncodeHeaderValue(%q) = %q, want %q", text, got, want)
		}
		if back, err := mcp.DecodeHeaderValue(got); back != text || err != nil {
			t.Errorf("DecodeHeaderValue(%q) = %q, %v, want %q", got, back, err, text)
		}
	}
}

func TestDecodeHeaderValue(t *testing.T) {
	for in, want := range map[string]string{
		"=?base64?YQ==?=": "a", // encoded without need
		"=?base64??=":     "",
		"=?base64?=":      "=?base64?=",
		"=?Base64?YQ==?=": "=?Base64?YQ==?=",
		"=?base64?YQ==":   "=?base64?YQ==",
	} {
		if got, err := mcp.DecodeHeaderValue(in); got != want || err != nil {
			t.Errorf("DecodeHeaderValue(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for name, in := range map[string]string{
		"raw UTF-8":             "Hello, 世界",
		"Latin-1":               "caf\xe9",
		"control character":     "a\x01",
		"line break":            "a\r\nb",
		"leading space":         " a",
		"trailing tab":          "a\t",
		"no base64":             "=?base64?%%%?=",
		"no padding":            "=?base64?YQ?=",
		"URL alphabet":          "=?base64?-_-_?=",
		"bits left over":        "=?base64?YR==?=",
		"line break in base64":  "=?base64?YW\nFh?=",
		"return in base64":      "=?base64?YWFh\r?=",
		"space in base64":       "=?base64?YW Fh?=",
		"more behind padding":   "=?base64?YQ==YQ==?=",
		"a sentinel in another": "=?base64?=?base64?YQ==?=?=",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := mcp.DecodeHeaderValue(in); got != "" || err == nil {
				t.Errorf("DecodeHeaderValue(%q) = %q, %v, want an error", in, got, err)
			}
		})
	}
}

func TestCheckNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		header string
		values []string
		want   string
		fault  string
	}{
		"equal":                   {"Mcp-Name", []string{"get_weather"}, "get_weather", ""},
		"a URI":                   {"Mcp-Name", []string{"file:///projects/myapp/config.json"}, "file:///projects/myapp/config.json", ""},
		"encoded":                 {"Mcp-Name", []string{"=?base64?SGVsbG8sIOS4lueVjA==?="}, "Hello, 世界", ""},
		"encoded without need":    {"Mcp-Name", []string{"=?base64?YQ==?="}, "a", ""},
		"any case of the header":  {"mcp-nAme", []string{"=?base64?YQ==?="}, "a", ""},
		"empty":                   {"Mcp-Name", []string{""}, "", ""},
		"method":                  {"Mcp-Method", []string{"tools/call"}, "tools/call", ""},
		"version":                 {"MCP-Protocol-Version", []string{"2026-07-28"}, "2026-07-28", ""},
		"missing":                 {"Mcp-Name", nil, "a", "Header mismatch: Mcp-Name is missing"},
		"missing for nothing":     {"Mcp-Name", nil, "", "Header mismatch: Mcp-Name is missing"},
		"other":                   {"Mcp-Name", []string{"foo"}, "bar", "Header mismatch: Mcp-Name does not match the body"},
		"other case":              {"Mcp-Name", []string{"Foo"}, "foo", "Header mismatch: Mcp-Name does not match the body"},
		"other case of a method":  {"Mcp-Method", []string{"Tools/call"}, "tools/call", "Header mismatch: Mcp-Method does not match the body"},
		"twice":                   {"Mcp-Name", []string{"a", "a"}, "a", "Header mismatch: Mcp-Name does not match the body"},
		"twice, second wrong":     {"Mcp-Name", []string{"a", "b"}, "a", "Header mismatch: Mcp-Name does not match the body"},
		"raw UTF-8":               {"Mcp-Name", []string{"世界"}, "世界", "Header mismatch: Mcp-Name: a header value with characters outside visible ASCII"},
		"bad base64":              {"Mcp-Name", []string{"=?base64?!?="}, "x", "Header mismatch: Mcp-Name: a header value with bad base64: illegal base64 data at input byte 0"},
		"sentinel taken as text":  {"Mcp-Name", []string{"=?base64?YQ==?="}, "=?base64?YQ==?=", "Header mismatch: Mcp-Name does not match the body"},
		"method in base64":        {"Mcp-Method", []string{"=?base64?dG9vbHMvY2FsbA==?="}, "tools/call", "Header mismatch: Mcp-Method does not match the body"},
		"version in base64":       {"MCP-Protocol-Version", []string{"=?base64?MjAyNi0wNy0yOA==?="}, "2026-07-28", "Header mismatch: MCP-Protocol-Version does not match the body"},
		"two values on one line":  {"Mcp-Name", []string{"a, a"}, "a", "Header mismatch: Mcp-Name does not match the body"},
		"white space at the ends": {"Mcp-Name", []string{" a"}, "a", "Header mismatch: Mcp-Name: a header value with characters outside visible ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			headers := http.Header{}
			for _, v := range tc.values {
				headers.Add(tc.header, v)
			}
			wantMismatch(t, mcp.CheckNamed(headers, tc.header, tc.want), tc.fault)
		})
	}
}

func wantMismatch(t *testing.T, got *mcp.Error, message string) {
	t.Helper()
	var want *mcp.Error
	if message != "" {
		want = &mcp.Error{Code: mcp.CodeHeaderMismatch, Message: message, Origin: mcp.OriginClient}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
}
