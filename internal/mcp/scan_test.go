package mcp_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestValidateAcceptsStrictJSON(t *testing.T) {
	for _, in := range []string{
		`0`, `-0`, `10`, `-12.5e+3`, `1E400`, `0.0`, `1e-7`, `123456789012345678901234567890`,
		`true`, `false`, `null`, `""`, `[]`, `{}`, " \t\r\n{} \t\r\n",
		`"\"\\\/\b\f\n\r\t\u0000\uFFFF\ufffd"`,
		`"é世界😀` + "\u007f\u0080\u07ff\u0800\ufffd\U0010FFFF" + `"`,
		`"\ud83d\ude00"`, `"\uD83D\uDE00\uDBFF\uDFFF"`,
		`[1,[2,[3]],{"a":[]}]`,
		`{"a":1,"A":2,"\u00e5":3,"a\u030a":4,"":5," ":6}`, // all different keys
		`{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}`,
		`"` + strings.Repeat("x", 100) + `"`,
	} {
		if err := mcp.Validate([]byte(in), mcp.Limits{}); err != nil {
			t.Errorf("Validate(%s): %v", in, err)
		}
	}
}

// TestValidateRefuses checks the offset of every error: where the text became invalid,
// which for an unterminated string is its beginning.
func TestValidateRefuses(t *testing.T) {
	for _, tc := range []struct {
		in   string
		at   int
		what string
	}{
		{"", 0, "unexpected end"},
		{" \n", 2, "unexpected end"},
		{"\ufeff{}", 0, "expected a value"},
		{"\x00", 0, "expected a value"},
		{"nul", 0, "expected a value"},
		{"nulL", 0, "expected a value"},
		{"True", 0, "expected a value"},
		{"NaN", 0, "expected a value"},
		{"Infinity", 0, "expected a value"},
		{"'a'", 0, "expected a value"},
		{"/**/1", 0, "expected a value"},

		// numbers
		{"-", 0, "expected a value"},
		{"+1", 0, "expected a value"},
		{".5", 0, "expected a value"},
		{"-a", 0, "expected a value"},
		{"01", 1, "data behind the message"},
		{"-01", 2, "data behind the message"},
		{"0x1F", 1, "data behind the message"},
		{"1.", 2, "unexpected end"},
		{"1.e5", 2, "expected a digit"},
		{"1e", 2, "unexpected end"},
		{"1e+", 3, "unexpected end"},
		{"[1e+]", 4, "expected a digit"},
		{"1_000", 1, "data behind the message"},

		// trailing data
		{"1 2", 2, "data behind the message"},
		{"{}{}", 2, "data behind the message"},
		{"{} x", 3, "data behind the message"},
		{"[],", 2, "data behind the message"},
		{"{}\x00", 2, "data behind the message"},
		{"{}\u00a0", 2, "data behind the message"},

		// objects and arrays
		{"{", 1, "unexpected end"},
		{"{a:1}", 1, "expected a key"},
		{"{1:1}", 1, "expected a key"},
		{"{,}", 1, "expected a key"},
		{`{"a"}`, 4, "expected a colon"},
		{`{"a"`, 4, "unexpected end"},
		{`{"a":}`, 5, "expected a value"},
		{`{"a":`, 5, "unexpected end"},
		{`{"a":1`, 6, "unexpected end"},
		{`{"a":1,}`, 7, "expected a key"},
		{`{"a":1,`, 7, "unexpected end"},
		{`{"a":1 "b":2}`, 7, "expected a comma or a closing brace"},
		{`{"a":1]`, 6, "expected a comma or a closing brace"},
		{"[", 1, "unexpected end"},
		{"[1", 2, "unexpected end"},
		{"[1,", 3, "unexpected end"},
		{"[1,]", 3, "expected a value"},
		{"[,1]", 1, "expected a value"},
		{"[1 2]", 3, "expected a comma or a closing bracket"},
		{"[1}", 2, "expected a comma or a closing bracket"},
		{"]", 0, "expected a value"},

		// strings
		{`"`, 0, "string without an end"},
		{`"abc`, 0, "string without an end"},
		{` "abcdefghijkl`, 1, "string without an end"},
		{`"abc\"`, 0, "string without an end"},
		{`"\`, 1, "unexpected end"},
		{`"\x"`, 1, "bad escape in a string"},
		{`"a\'"`, 2, "bad escape in a string"},
		{`"\u12"`, 1, "bad escape in a string"},
		{`"\u12G4"`, 1, "bad escape in a string"},
		{`"\U00410042"`, 1, "bad escape in a string"},
		{"\"a\nb\"", 2, "control character in a string"},
		{"\"0123456789\tb\"", 11, "control character in a string"},
		{"\"\x00\"", 1, "control character in a string"},
		{"\"01234567\x1f\"", 9, "control character in a string"},

		// UTF-8
		{"\"\xff\"", 1, "invalid UTF-8"},
		{"\"0123456789\x80\"", 11, "invalid UTF-8"},
		{"\"\xc0\xaf\"", 1, "invalid UTF-8"},         // overlong
		{"\"\xe0\x80\xaf\"", 1, "invalid UTF-8"},     // overlong
		{"\"\xed\xa0\x80\"", 1, "invalid UTF-8"},     // surrogate
		{"\"\xf4\x90\x80\x80\"", 1, "invalid UTF-8"}, // above U+10FFFF
		{"\"\xe4\xb8\"", 1, "invalid UTF-8"},         // cut
		{"\"\xe4\xb8c\"", 1, "invalid UTF-8"},
		{"\"\xe4\xff\x80\"", 1, "invalid UTF-8"},
		{"\"\xe4\x80\xff\"", 1, "invalid UTF-8"},
		{"\"\xc3\xc3\"", 1, "invalid UTF-8"},
		{"{\"\xff\":1}", 2, "invalid UTF-8"},

		// half surrogate pairs
		{`"\ud800"`, 1, "half of a surrogate pair"},
		{`"a\udc00"`, 2, "half of a surrogate pair"},
		{`"\ud800\ud800"`, 1, "half of a surrogate pair"},
		{`"\ud800\u0041"`, 1, "half of a surrogate pair"},
		{`"\ud800\ue000"`, 1, "half of a surrogate pair"},
		{`"\ud800x"`, 1, "half of a surrogate pair"},
		{`"\udc00\ud800"`, 1, "half of a surrogate pair"},
		{`{"\ud800":1}`, 2, "half of a surrogate pair"},
		{`"\ud800\u12"`, 7, "bad escape in a string"}, // what breaks the structure wins
	} {
		wantSyntaxError(t, tc.in, mcp.Limits{}, tc.at, tc.what)
	}
}

func wantSyntaxError(t *testing.T, in string, limits mcp.Limits, at int, what string) {
	t.Helper()
	err := mcp.Validate([]byte(in), limits)
	syntax, ok := errors.AsType[*mcp.SyntaxError](err)
	if !ok {
		t.Errorf("Validate(%q) = %v, want %s at byte %d", in, err, what, at)
		return
	}
	if diff := cmp.Diff(&mcp.SyntaxError{Offset: at, What: what}, syntax); diff != "" {
		t.Errorf("Validate(%q) (-want +got):\n%s", in, diff)
	}
	if want := fmt.Sprintf("%s at byte %d", what, at); syntax.Error() != want {
		t.Errorf("error is %q, want %q", syntax.Error(), want)
	}
}

func TestLoneSurrogatesPassInValuesWhereAllowed(t *testing.T) {
	allowed := mcp.Limits{LoneSurrogates: true}
	for _, in := range []string{`"\ud800"`, `"x\udc00y"`, `["\ud800\ud800"]`, `{"a":"\udfff\u0041"}`} {
		if err := mcp.Validate([]byte(in), allowed); err != nil {
			t.Errorf("Validate(%s): %v", in, err)
		}
	}
	// Never in a key: readers disagree on which key it is.
	wantSyntaxError(t, `{"\ud800":1}`, allowed, 2, "half of a surrogate pair")
	wantSyntaxError(t, `{"a":[{"x\udc00":1}]}`, allowed, 9, "half of a surrogate pair")
}

func TestKeysGivenTwice(t *testing.T) {
	many := func(n int, more string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range n {
			fmt.Fprintf(&b, `"k%d":%d,`, i, i)
		}
		return b.String() + more + "}"
	}
	for name, in := range map[string]string{
		"plain":                  `{"a":1,"a":1}`,
		"empty key":              `{"":1,"":2}`,
		"same value":             `{"a":null,"b":0,"a":null}`,
		"escaped":                `{"name":1,"n\u0061me":2}`,
		"escaped first":          `{"n\u0061me":1,"name":2}`,
		"both escaped":           `{"\u006eame":1,"n\u0061me":2}`,
		"hex digits in any case": `{"\u00e9":1,"\u00E9":2}`,
		"escape and UTF-8":       `{"é":1,"\u00e9":2}`,
		"surrogate pair":         `{"😀":1,"\ud83d\ude00":2}`,
		"pairs in any case":      `{"\uD83D\uDE00":1,"\ud83d\ude00":2}`,
		"solidus":                `{"a/b":1,"a\/b":2}`,
		"short escapes":          `{"\n":1,"\u000a":2}`,
		"quote":                  `{"\"":1,"\u0022":2}`,
		"backslash":              `{"\\":1,"\u005c":2}`,
		"NUL":                    `{"\u0000":1,"\u0000":2}`,
		"long key":               `{"` + strings.Repeat("k", 300) + `":1,"` + strings.Repeat("k", 299) + `\u006b":2}`,
		"below an object":        `{"x":{"y":{"a":1,"a":2}}}`,
		"below an array":         `[0,[{"b":1,"a":1,"a":2}]]`,
		"after a nested object":  `{"a":{"b":1},"a":2}`,
		"two objects later":      `{"a":{"x":{}},"b":{"y":{}},"a":1}`,
		"key number 24":          many(23, `"k0":1`),
		"key number 25":          many(24, `"k0":1`),
		"key number 26":          many(25, `"k24":1`),
		"among 1000":             many(1000, `"k500":1`),
		"among 1000, escaped":    many(1000, `"\u006b500":1`),
		"around a big object":    `{"a":` + many(100, `"z":{}`) + `,"a":1}`,
		"in a big around a big":  many(100, `"x":`+many(100, `"y":1`)+`,"k99":1`),
		"in a big in a big":      many(100, `"x":`+many(100, `"k7":1`)),
		"escaped among the 24":   `{"\u0061":1,` + many(24, `"a":2`)[1:],
	} {
		t.Run(name, func(t *testing.T) {
			err := mcp.Validate([]byte(in), mcp.Limits{})
			if syntax, ok := errors.AsType[*mcp.SyntaxError](err); !ok || syntax.What != "key given twice" {
				t.Errorf("Validate = %v, want a key given twice", err)
			}
		})
	}
	for name, in := range map[string]string{
		"siblings":          `[{"a":1},{"a":1}]`,
		"parent and child":  `{"a":{"a":{"a":{}}}}`,
		"case":              `{"a":1,"A":1,"ſ":1,"s":1,"S":1,"k":1,"K":1}`,
		"normal forms":      `{"é":1,"e\u0301":1}`,
		"same ends":         `{"abcdXefgh":1,"abcdYefgh":1,"abcdZefgh":1}`,
		"same length":       `{"abc":1,"abd":1,"ab":1,"a":1}`,
		"NULs by length":    `{"":0,"\u0000":1,"\u0000\u0000":2,"\u0000\u0000\u0000":3,"\u0000\u0000\u0000\u0000":4}`,
		"exactly 24":        many(23, `"z":1`),
		"25":                many(24, `"z":1`),
		"1000":              many(999, `"z":1`),
		"big after big":     "[" + many(100, `"z":1`) + "," + many(100, `"z":1`) + "]",
		"big in big in big": many(60, `"x":`+many(60, `"x":`+many(60, `"x":1`)+`,"y":1`)+`,"y":1`),
	} {
		t.Run(name, func(t *testing.T) {
			if err := mcp.Validate([]byte(in), mcp.Limits{}); err != nil {
				t.Errorf("Validate: %v", err)
			}
		})
	}
	wantSyntaxError(t, `{"x":{"id":1,"i\u0064":2}}`, mcp.Limits{}, 14, "key given twice")
}

func TestNestingIsBounded(t *testing.T) {
	arrays := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for _, tc := range []struct {
		limit int // 0 is the default
		most  int
	}{{0, mcp.DefaultDepth}, {-1, mcp.DefaultDepth}, {1, 1}, {7, 7}, {10_000, 10_000}} {
		limits := mcp.Limits{Depth: tc.limit}
		for _, in := range []string{arrays(tc.most), objects(tc.most), objects(tc.most - 1), "1"} {
			if err := mcp.Validate([]byte(in), limits); err != nil {
				t.Errorf("depth %d: Validate of %d levels: %v", tc.limit, tc.most, err)
			}
		}
		wantSyntaxError(t, arrays(tc.most+1), limits, tc.most, "nesting too deep")
		wantSyntaxError(t, objects(tc.most+1), limits, 5*tc.most, "nesting too deep")
	}
	// A message without an end costs no more than the limit allows.
	wantSyntaxError(t, strings.Repeat("[", 1<<20), mcp.Limits{}, mcp.DefaultDepth, "nesting too deep")
}

// TestStringsAreReadInBlocks places each special byte at each place of the
// eight bytes that are read at once, before and behind others.
func TestStringsAreReadInBlocks(t *testing.T) {
	for n := range 24 {
		pad := strings.Repeat("~", n)
		for tail := range 10 {
			rest := strings.Repeat(" ", tail)
			for _, good := range []string{``, `\"`, `\\`, `\u0022`, "\x7f", "é", "世", "😀", "{", "]"} {
				in := `"` + pad + good + rest + `"`
				if err := mcp.Validate([]byte(in), mcp.Limits{}); err != nil {
					t.Errorf("Validate(%q): %v", in, err)
				}
				wantSyntaxError(t, in+`"`, mcp.Limits{}, len(in), "data behind the message")
			}
			for _, bad := range []string{"\x1f", "\x00", "\n"} {
				wantSyntaxError(t, `"`+pad+bad+rest+`"`, mcp.Limits{}, 1+n, "control character in a string")
			}
			wantSyntaxError(t, `"`+pad+"\x80"+rest+`"`, mcp.Limits{}, 1+n, "invalid UTF-8")
			wantSyntaxError(t, `"`+pad+rest, mcp.Limits{}, 0, "string without an end")
		}
	}
}

// TestKeysCostBoundedMemory checks that the memory for a message of mostly keys is
// proportional to the message.
func TestKeysCostBoundedMemory(t *testing.T) {
	for name, raw := range map[string]string{
		"unknown":  `{"jsonrpc":"2.0","id":1,"method":"m","params":` + manyMembers(200_000) + `}`,
		"repeated": `{"jsonrpc":"2.0","method":"m"` + strings.Repeat(`,"id":1`, 200_000) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := mcp.Parse([]byte(raw), mcp.Limits{})
			runtime.ReadMemStats(&after)
			if (err != nil) != (name == "repeated") {
				t.Errorf("Parse: %v", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > uint64(20*len(raw)) {
				t.Errorf("Parse of %d bytes allocated %d", len(raw), got)
			}
		})
	}
}
