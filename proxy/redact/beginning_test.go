package redact

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// seen is a rule that notes the longest text that it is asked about.
type seen struct{ most int }

func (s *seen) find(text string, _ *finds) { s.most = max(s.most, len(text)) }

// A beginning has nothing of a secret that the cut goes through, wherever the cut is, and all
// that is before it.
func TestBeginning(t *testing.T) {
	t.Parallel()
	const known, most = "Zürich-is-Known", 200
	set := &Set{}
	set.Add("Zebra-comes-and-goes")
	r := redactor(t, Options{Tokens: true, Secrets: []string{known, "Z" + body(2*lookahead)}, Set: set})
	for name, tt := range map[string]struct{ secret, hidden string }{
		"known":                {known, known},
		"of a set":             {"Zebra-comes-and-goes", "Zebra-comes-and-goes"},
		"longer than a look":   {"Z" + body(2*lookahead), "Z" + body(8)},
		"a token":              {"ghp_" + body(36), "ghp_"},
		"a token without end":  {"ghp_" + body(3*lookahead), "ghp_"},
		"a private key":        {pem("PRIVATE KEY"), "-----BEGIN"},
		"a long private key":   {"-----BEGIN PRIVATE KEY-----\n" + body(3*lookahead), "-----BEGIN"},
		"a web token":          {jwt(), "eyJ"},
		"a web token that is":  {"eyJhbGciOi.eyJ" + body(2*lookahead) + "." + body(20), "eyJ"},
		"a password in a link": {"https://ada:Zunder2@example.com", "Z"},
	} {
		for at := range most + 40 {
			before := strings.Repeat("- ", most)[:at]
			got, err := r.Beginning(before+tt.secret+" behind", most, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(got, tt.hidden) || strings.Contains(got, tt.hidden[:1]) && tt.hidden[0] == 'Z' {
				t.Fatalf("%s at %d of %d: %q", name, at, most, got)
			}
			if n := min(at, most); !strings.HasPrefix(got, before[:n]) || at >= most && got != before[:n] {
				t.Fatalf("%s at %d of %d: %q", name, at, most, got)
			}
		}
	}
}

// The rest of a text costs nothing, and a cut is between characters.
func TestBeginningIsBounded(t *testing.T) {
	t.Parallel()
	look := &seen{}
	r := &Redactor{rules: []rule{look}}
	long := strings.Repeat("ü", 1<<20)
	for most := range 9 {
		got, err := r.Beginning(long, most, time.Time{})
		if err != nil || len(got) > most || len(got) < most-1 || !utf8.ValidString(got) {
			t.Errorf("%d: %q %v", most, got, err)
		}
	}
	if look.most > lookahead+20 {
		t.Errorf("%d bytes were searched", look.most)
	}
	if got, err := r.Beginning(strings.Repeat("\x80", 100), 50, time.Time{}); err != nil || len(got) < 40 {
		t.Errorf("%q %v", got, err)
	}
	if got, err := (*Redactor)(nil).Beginning(long, 10, time.Time{}); err != nil || got != long[:10] {
		t.Errorf("%q %v", got, err)
	}
	if got, err := r.Beginning("x", 10, time.Now().Add(-time.Second)); !errors.Is(err, ErrLate) || got != "" {
		t.Errorf("%q %v", got, err)
	}
}
