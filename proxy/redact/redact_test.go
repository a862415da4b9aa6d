package redact

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

func redactor(t testing.TB, o Options) *Redactor {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// text and value call the methods without a deadline.
func text(t *testing.T, r *Redactor, in string) (string, int) {
	t.Helper()
	out, n, err := r.Text(in, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return out, n
}

func value(t *testing.T, r *Redactor, in []byte) ([]byte, int) {
	t.Helper()
	out, n, err := r.Value(in, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return out, n
}

// body is characters that no service has issued as a token.
func body(n int) string { return strings.Repeat("aB3d", n/4+1)[:n] }

// pem looks like a private key.
func pem(label string) string {
	return "-----BEGIN " + label + "-----\nMIIB\nAAAA\n-----END " + label + "-----"
}

func jwt() string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"HS256"}`) + "." + part(`{"sub":"1"}`) + "." + body(20)
}

// TestTokens has for every kind a match within a text, and similar texts that do not
// match.
func TestTokens(t *testing.T) {
	r := redactor(t, Options{Tokens: true})
	found := map[string][]string{
		"github_token":        {"ghp_" + body(36), "gho_" + body(36), "ghs_" + body(36), "github_pat_" + body(22) + "_" + body(40)},
		"gitlab_token":        {"glpat-" + body(20), "gldt-" + body(20), "glrt-" + body(20)},
		"aws_access_key":      {"AKIA" + strings.Repeat("A7", 8), "ASIA" + strings.Repeat("Z2", 8)},
		"google_api_key":      {"AIza" + body(35)},
		"google_oauth_secret": {"GOCSPX-" + body(28)},
		"google_oauth_token":  {"ya29." + body(60)},
		"slack_token":         {"xoxb-1234567890-" + body(24), "xapp-1-" + body(30)},
		"stripe_key":          {"sk_live_" + body(24), "whsec_" + body(32)},
		"anthropic_key":       {"sk-ant-api03-" + body(90)},
		"openai_key":          {"sk-" + body(48), "sk-proj-" + body(60)},
		"npm_token":           {"npm_" + body(36)},
		"pypi_token":          {"pypi-" + body(80)},
		"huggingface_token":   {"hf_" + body(34)},
		"sendgrid_key":        {"SG." + body(22) + "." + body(43)},
		"digitalocean_token":  {"dop_v1_" + strings.Repeat("0f", 32)},
		"shopify_token":       {"shpat_" + strings.Repeat("0f", 16)},
		"databricks_token":    {"dapi" + strings.Repeat("0f", 16)},
		"vault_token":         {"hvs." + body(90)},
		"toolgate_key":        {"tgk_" + body(40)},
		"age_key":             {"AGE-SECRET-KEY-1" + strings.Repeat("Q", 58)},
		"private_key":         {pem("PRIVATE KEY"), pem("RSA PRIVATE KEY"), pem("OPENSSH PRIVATE KEY"), "-----BEGIN PRIVATE KEY-----\nwithout an end"},
		"jwt":                 {jwt()},
	}
	for _, name := range tokenNames() {
		if name == "url_password" {
			continue // below
		}
		if len(found[name]) == 0 {
			t.Errorf("%s has no example", name)
		}
		for _, token := range found[name] {
			for _, around := range [][2]string{{"", ""}, {"token: ", "\n"}, {`"`, `"`}, {"=", ""}} {
				if strings.HasSuffix(token, "end") && around[1] != "" {
					continue
				}
				got, n := text(t, r, around[0]+token+around[1])
				if want := around[0] + "[redacted: " + name + "]" + around[1]; got != want || n != 1 {
					t.Errorf("%q: got %q, %d", around[0]+token+around[1], got, n)
				}
			}
		}
	}
	got, n := text(t, r, "see https://ada:hunter2@example.com/x?a:b@c and postgres://u:p@ss@db:5432/x")
	if want := "see https://ada:[redacted: url_password]@example.com/x?a:b@c and postgres://u:[redacted: url_password]@db:5432/x"; got != want || n != 2 {
		t.Errorf("got %q, %d", got, n)
	}
	for _, none := range []string{
		"", "ghp_short", "AKIA is a prefix", "task-1234567890123456789012345678901234567890", "risk-" + body(40),
		"xAKIA" + strings.Repeat("A7", 8), "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN ",
		"eyJhbGciOi", "eyJhbGciOi.eyJzdWIi", "eyJhbGciOi.nothing.here", "https://example.com:8080/a@b", "https://user@example.com", "://", "mailto:a@b",
		"https://registry.example/@scope/name:1.0@2",
	} {
		if got, n := text(t, r, none); n != 0 || got != none {
			t.Errorf("%q became %q", none, got)
		}
	}
}

// TestSecretsInEverySpelling finds a value in every spelling.
func TestSecretsInEverySpelling(t *testing.T) {
	const secret = "pa ss/w\"örd+1"
	r := redactor(t, Options{Secrets: []string{secret, "short", "", "Bearer abcdefgh12"}})
	for _, spelled := range []string{
		secret, string(mcp.Quote(secret)[1 : len(mcp.Quote(secret))-1]), url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)), "abcdefgh12",
	} {
		got, n := text(t, r, "<"+spelled+">")
		if strings.TrimRight(strings.TrimSuffix(got, ">"), "=") != "<[redacted: secret]" || n != 1 {
			t.Errorf("%q: got %q, %d", spelled, got, n)
		}
	}
	for _, none := range []string{"short", "Bearer of news", "pa ss"} {
		if got, n := text(t, r, none); n != 0 {
			t.Errorf("%q became %q", none, got)
		}
	}
}

// TestValue has values with the secret hunter2x, the number of matches, and the
// unchanged bytes.
func TestValue(t *testing.T) {
	r := redactor(t, Options{Secrets: []string{"hunter2x"}, Patterns: []Pattern{{Name: "number", Match: `N-\d+`}}})
	for _, tt := range []struct {
		in, out string
		n       int
	}{
		{`"hunter2x"`, `"[redacted: secret]"`, 1},
		{`{"a": 12345678901234567890, "b" : ["x","hunter2x" ], "c":1.0}`, `{"a": 12345678901234567890, "b" : ["x","[redacted: secret]" ], "c":1.0}`, 1},
		{`"a\u0068unter2xb\n"`, `"a[redacted: secret]b\n"`, 1},
		{`"\"hunter2x\\"`, `"\"[redacted: secret]\\"`, 1},
		{`"hunter2xhunter2x N-12"`, `"[redacted: secret][redacted: secret] [redacted: number]"`, 3},
		{`{"hunter2x":1}`, `{"[redacted: secret]":1}`, 1},
		{`{"hunter2x":1,"N-1":{"N-3":0,"N-4":0},"N-2":2,"[redacted: number] 2":3}`, `{"[redacted: secret]":1,"[redacted: number]":{"[redacted: number]":0,"[redacted: number] 2":0},"[redacted: number] 3":2,"[redacted: number] 2":3}`, 5},
		{`{"a":"b","c":["N-","hunter2"],"d":{},"e":[],"f":"","g":"\\"}`, "", 0},
		{`"\ud800hunter2x"`, "\"\uFFFD[redacted: secret]\"", 1},
		{`null`, "", 0},
	} {
		in := []byte(tt.in)
		got, n := value(t, r, in)
		if tt.n == 0 {
			if n != 0 || &got[0] != &in[0] {
				t.Errorf("%s: got %s, %d, which is not the same", tt.in, got, n)
			}
			continue
		}
		if string(got) != tt.out || n != tt.n || string(in) != tt.in {
			t.Errorf("%s:\ngot  %s, %d\nwant %s, %d", tt.in, got, n, tt.out, tt.n)
		}
	}
	var none *Redactor
	if got, n := value(t, none, []byte(`"hunter2x"`)); n != 0 || string(got) != `"hunter2x"` {
		t.Errorf("a nil redactor gives %s", got)
	}
	if got, n := text(t, none, "hunter2x"); n != 0 || got != "hunter2x" {
		t.Errorf("a nil redactor gives %s", got)
	}
}

// TestOverlaps joins overlapping matches into one mark.
func TestOverlaps(t *testing.T) {
	r := redactor(t, Options{Secrets: []string{"abcdefgh", "fghijklm"}, Patterns: []Pattern{{"wide", "zabcdefghi"}, {"end", "klmn"}}})
	if got, n := text(t, r, "zabcdefghijklmn."); got != "[redacted: wide]." || n != 1 {
		t.Errorf("got %q, %d", got, n)
	}
}

// TestPatternsAreBounded refuses expressions that cost too much, or match everything.
func TestPatternsAreBounded(t *testing.T) {
	for _, bad := range []string{
		"", "a*", "(?:)", "(", `\1`, "(?=a)", strings.Repeat("a", MaxPattern+1), "(x{100}y){10}", "((a{30}){30}){30}", `(\pL|\pN){200}`, `a(\Bb)+`,
	} {
		if _, err := (Pattern{Match: bad}).compile(); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
	for _, good := range []string{`CUST-\d{8}`, "(?i)password=\\S+", strings.Repeat("a", 400)} {
		if _, err := (Pattern{Match: good}).compile(); err != nil {
			t.Errorf("%.40q: %v", good, err)
		}
	}
	if _, err := New(Options{Patterns: []Pattern{{"bad", "("}}}); err == nil || !strings.Contains(err.Error(), "bad") {
		t.Errorf("got %v", err)
	}
	if _, err := New(Options{Secrets: make([]string, MaxSecrets+1)}); err == nil {
		t.Error("too many secrets are taken")
	}
	if r, err := New(Options{Secrets: []string{"short"}}); r != nil || err != nil {
		t.Errorf("without rules: %v, %v", r, err)
	}
}

// TestHostileTexts has texts that take quadratic time in a naive search. The search
// ends at once, or at its deadline.
func TestHostileTexts(t *testing.T) {
	r := redactor(t, Options{Tokens: true, Secrets: []string{"aaaaaaaaaaab"}, Patterns: []Pattern{{"p", `(a|aa)+b\d+`}}})
	const size = 1 << 19
	for _, unit := range []string{
		"a", "AKIA", "xAKIA", "xxoxb-", "eyJ", "eyJ.", "xeyJ.eyJ.", "://", "://a:b", "-----BEGIN ", "-----BEGIN PUBLIC KEY-----", "sk-ant-", "xsk-ant-", "hvs.", "\x00", "\xff",
	} {
		long := strings.Repeat(unit, size/len(unit))
		text(t, r, long)
		value(t, r, mcp.Quote(long))
	}
	deep := bytes.Repeat([]byte("["), 1000)
	deep = append(append(deep, `"x"`...), bytes.Repeat([]byte("]"), 1000)...)
	if got, n := value(t, r, deep); n != 0 || !bytes.Equal(got, deep) {
		t.Error("a deep value changed")
	}
	var keys bytes.Buffer
	keys.WriteByte('{')
	for i := range 20000 { // all of which become one name
		fmt.Fprintf(&keys, `"ab%d":0,`, i)
	}
	keys.WriteString(`"x":1}`)
	clean, n := value(t, r, keys.Bytes())
	if n != 20000 {
		t.Errorf("%d keys found", n)
	}
	if err := mcp.Validate(clean, mcp.Limits{}); err != nil {
		t.Error(err)
	}
}

// TestLateSearches: what was not searched in time is not returned.
func TestLateSearches(t *testing.T) {
	r := redactor(t, Options{Patterns: []Pattern{{"p", `a(.*b)?`}}})
	long := strings.Repeat("a", 1<<18) // a match at every place, after a look at all behind it
	if out, n, err := r.Text(long, time.Now().Add(20*time.Millisecond)); !errors.Is(err, ErrLate) || out != "" || n != 0 {
		t.Errorf("got %.20q, %d, %v", out, n, err)
	}
	if out, _, err := r.Value([]byte(`["x","a"]`), time.Now().Add(-1)); !errors.Is(err, ErrLate) || out != nil {
		t.Errorf("got %s, %v", out, err)
	}
}

// TestWindows: a match is found anywhere in a long text, also across the ends of the
// searched parts.
func TestWindows(t *testing.T) {
	r := redactor(t, Options{Patterns: []Pattern{{"p", `N-\d+ `}}})
	for at := window - overlap - 10; at < window+10; at += 1009 {
		in := strings.Repeat("x", at) + "N-1234 " + strings.Repeat("y", 2*window-at)
		if got, n := text(t, r, in); n != 1 || got != strings.Replace(in, "N-1234 ", "[redacted: p]", 1) {
			t.Fatalf("at %d: %d found", at, n)
		}
	}
}

// FuzzValue: the output is valid, holds no secret, and is unchanged without matches.
func FuzzValue(f *testing.F) {
	f.Add([]byte(`{"a":"hunter2x","hunter2x":["\u0068unter2x"]}`))
	f.Add([]byte(`["ghp_aB3daB3daB3daB3daB3daB3daB3daB3d"," N-12 ",{"N-1":1,"N-2":2}]`))
	f.Add([]byte(`"\\\"hunter2x\\\\"`))
	r := redactor(f, Options{Secrets: []string{"hunter2x"}, Tokens: true, Patterns: []Pattern{{"n", `N-\d+`}}})
	only := redactor(f, Options{Secrets: []string{"hunter2x"}})
	f.Fuzz(func(t *testing.T, in []byte) {
		if mcp.Validate(in, mcp.Limits{LoneSurrogates: true}) != nil {
			return
		}
		before := slices.Clone(in)
		clean, n := value(t, r, in)
		if !bytes.Equal(before, in) {
			t.Fatal("the value was changed")
		}
		if (n == 0) != bytes.Equal(clean, in) {
			t.Fatalf("%d secrets, and %s became %s", n, in, clean)
		}
		if err := mcp.Validate(clean, mcp.Limits{LoneSurrogates: true}); err != nil {
			t.Fatalf("%s became %s: %v", in, clean, err)
		}
		if _, left := value(t, only, clean); left != 0 {
			t.Fatalf("%s became %s", in, clean)
		}
	})
}

// A secret that was cut off with an ellipsis is found by its beginning.
func TestCutSecrets(t *testing.T) {
	r := redactor(t, Options{Secrets: []string{"secret-of-the-day", "secret-of-the-night"}})
	for in, want := range map[string]string{
		"it is secret-of-the-d...":         "it is [redacted: secret]...",
		"it is secret-of-the-n… and more":  "it is [redacted: secret]… and more",
		"secret-o...":                      "[redacted: secret]...",
		"secret-o":                         "secret-o",
		"secret-of-the-evening...":         "secret-of-the-evening...",
		"secret...":                        "secret...",
		"secret-secret-of-the-day":         "secret-[redacted: secret]",
		"secret-of-secret-of-the-night":    "secret-of-[redacted: secret]",
		`{"err":"secret-of-the-n\u2026"}`:  `{"err":"[redacted: secret]\u2026"}`,
		"secret-of-the-daysecret-of-the-…": "[redacted: secret][redacted: secret]…",
	} {
		if got, _ := text(t, r, in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// A set finds its secrets like Options.Secrets, while they are in it.
func TestSet(t *testing.T) {
	var set Set
	values := []string{"Bearer first-secret-of-all", "first-secret", "another:secret/with spaces", "eyJhbGciOi.one.x", "eyJhbGciOi.two.y", "short"}
	static, err := New(Options{Secrets: values})
	if err != nil {
		t.Fatal(err)
	}
	moving, err := New(Options{Set: &set})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, value := range values {
			set.Add(value)
		}
	}
	texts := []string{
		"", "short", "x first-secret y", "first-secret-of-all", "first-secret-of-a...", "first-secret-of", "another%3Asecret%2Fwith+spaces",
		"eyJhbGciOi.two.y eyJhbGciOi.three.z eyJhbGciOi.one.x", "first-se", "Zmlyc3Qtc2VjcmV0", "first-first-secret",
	}
	requireSame := func(want *Redactor) {
		t.Helper()
		for _, text := range texts {
			expected, n, _ := want.Text(text, time.Time{})
			if got, m, err := moving.Text(text, time.Time{}); got != expected || m != n || err != nil {
				t.Errorf("%q is %q (%d, %v), want %q (%d)", text, got, m, err, expected, n)
			}
		}
	}
	requireSame(static)
	for _, value := range values {
		set.Remove(value)
	}
	requireSame(static) // each was added twice
	for _, value := range append(values, "never added") {
		set.Remove(value)
	}
	requireSame(nil)
	if set.Len()+len(set.begin)+len(set.used) != 0 {
		t.Error("something is left of what was removed")
	}
	set.Add("some secret or other")
	if _, _, err := moving.Text(strings.Repeat("x", 1<<20), time.Now().Add(-time.Second)); !errors.Is(err, ErrLate) {
		t.Errorf("what takes too long ends with %v", err)
	}
}

// The time of a search does not grow with the secrets in a set.
func BenchmarkSet(b *testing.B) {
	var set Set
	for i := range 10_000 {
		set.Add(fmt.Sprintf("%08x-secret-of-somebody", i*2654435761))
	}
	r, _ := New(Options{Set: &set})
	text := strings.Repeat("a line of the log with nothing in it ", 8)
	for b.Loop() {
		if _, n, err := r.Text(text, time.Time{}); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// tokenNames returns the names of the recognised kinds of credentials, without duplicates.
func tokenNames() []string {
	names := []string{"private_key", "jwt", "url_password"}
	seen := map[string]bool{}
	for _, s := range shapes {
		if !seen[s.name] {
			seen[s.name] = true
			names = append(names, s.name)
		}
	}
	return names
}
