package mcp_test

import (
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestUnquote(t *testing.T) {
	for in, want := range map[string]string{
		`""`:                         "",
		`"plain é 世 😀"`:              "plain é 世 😀",
		`"\"\\\/\b\f\n\r\t"`:         "\"\\/\b\f\n\r\t",
		`"\u0041\u00e9\u4E16"`:       "Aé世",
		`"\ud83d\ude00\uD83D\uDE00"`: "😀😀",
		`"\u0000"`:                   "\x00",
		`"\ud800"`:                   "\ufffd",
		`"\ud800x"`:                  "\ufffdx",
		`"\udc00\ud800"`:             "\ufffd\ufffd",
		`"\ud800\u0041"`:             "\ufffdA",
		`"\ud800\ud83d\ude00"`:       "\ufffd😀",
		`"\ud83d\\ude00"`:            "\ufffd\\ude00",
	} {
		if got, err := mcp.Unquote([]byte(in)); got != want || err != nil {
			t.Errorf("Unquote(%s) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{``, `"`, `a`, `1`, `null`, `{}`, `["a"]`, `"a`, `a"`, ` "a"`} {
		if got, err := mcp.Unquote([]byte(in)); got != "" || err == nil {
			t.Errorf("Unquote(%s) = %q, %v, want an error", in, got, err)
		}
	}
}

func TestQuoteEscapesTheFewest(t *testing.T) {
	for in, want := range map[string]string{
		"":                            `""`,
		"a/b <&> é 世 😀 \u007f \u2028": "\"a/b <&> é 世 😀 \u007f \u2028\"",
		"\"\\":                        `"\"\\"`,
		"\b\f\n\r\t":                  `"\b\f\n\r\t"`,
		"\x00\x1f\x0b":                `"\u0000\u001f\u000b"`,
		"a\xffb":                      "\"a\ufffdb\"",
		"\xe4\xb8":                    "\"\ufffd\ufffd\"",
		"\ufffd":                      "\"\ufffd\"",
		"\xed\xa0\x80":                "\"\ufffd\ufffd\ufffd\"",
	} {
		if got := string(mcp.Quote(in)); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
	if got := string(mcp.AppendQuote([]byte("x"), "y")); got != `x"y"` {
		t.Errorf("AppendQuote = %s", got)
	}
}
