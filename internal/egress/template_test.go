package egress

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	for _, tc := range []struct {
		template string
		values   url.Values
		want     string // the address, or the rule that refuses it
	}{
		{"https://a.example", nil, "https://a.example/"},
		{"https://a.example/{a}{b}", url.Values{"a": {"x%2"}, "b": {"f..%2"}}, "path"},
		{"https://a.example/{a}{b}", url.Values{"a": {"..%2"}, "b": {"fx"}}, "path"},
		{"https://a.example/x{a}2f{b}", url.Values{"a": {"%"}, "b": {".."}}, "path"},
		{"https://a.example/x{a}2f{b}", url.Values{"a": {"%"}, "b": {"y"}}, "path"},
		{"https://a.example/g%2F{n}", url.Values{"n": {"x"}}, "https://a.example/g%2Fx"},
		{"https://a.example/g%2F{n}", url.Values{"n": {"..;x"}}, "path"},
		{"https://a.example/g%2F{n}%2Fz", url.Values{"n": {"%2e%2e;x"}}, "path"},
		{"https://a.example/x/{n}.log", url.Values{"n": {"today"}}, "https://a.example/x/today.log"},
		{"https://a.example/{n}", url.Values{"n": {"a b?c#d&e=f%"}}, "https://a.example/a%20b%3Fc%23d&e=f%25"},
		{"https://a.example/{n}/", url.Values{"n": {"\u00fc"}}, "https://a.example/%C3%BC/"},
		{"https://a.example/s?q={q}&n=5", url.Values{"q": {"a&n=6#x y"}}, "https://a.example/s?q=a%26n%3D6%23x+y&n=5"},
		{"https://a.example/s?q=site:x+{q}", url.Values{"q": {"y"}}, "https://a.example/s?q=site%3Ax+y"},
		{"https://a.example/s?q={q}&tag={t}&flag", url.Values{"t": {"a", "b"}}, "https://a.example/s?tag=a&tag=b&flag"},
		{"https://a.example?q={q}", url.Values{"q": {""}}, "https://a.example/?q="},
		{"https://a.example/a%2Fb/{n}", url.Values{"n": {"v1.2"}}, "https://a.example/a%2Fb/v1.2"},

		{"https://a.example/{n}", url.Values{"n": {"a/b"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {".."}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"."}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {""}}, "path"},
		{"https://a.example/{n}", nil, "path"},
		{"https://a.example/{n}", url.Values{"n": {"a", "b"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"%2e%2e"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"%2E."}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"%252e%252e"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"%25252e%25252e"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"%" + strings.Repeat("25", 30) + "2e"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"a%2fb"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"a%5Cb"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {`a\b`}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"a\x00b"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"a\r\nHost: b"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {"..;x"}}, "path"},
		{"https://a.example/{n}", url.Values{"n": {";x"}}, "path"},
		{"https://a.example/.{n}", url.Values{"n": {"."}}, "path"},
		{"https://a.example/{a}{b}", url.Values{"a": {"."}, "b": {"."}}, "path"},
		{"https://a.example/{a}{b}", url.Values{"a": {"x%2"}, "b": {"f..%2"}}, "path"},
		{"https://a.example/{a}{b}", url.Values{"a": {"..%2"}, "b": {"fx"}}, "path"},
		{"https://a.example/x{a}2f{b}", url.Values{"a": {"%"}, "b": {".."}}, "path"},
		{"https://a.example/x{a}2f{b}", url.Values{"a": {"%"}, "b": {"y"}}, "path"},
		{"https://a.example/g%2F{n}", url.Values{"n": {"x"}}, "https://a.example/g%2Fx"},
		{"https://a.example/g%2F{n}", url.Values{"n": {"..;x"}}, "path"},
		{"https://a.example/g%2F{n}%2Fz", url.Values{"n": {"%2e%2e;x"}}, "path"},
		{"https://a.example/x/{n}.log", url.Values{"n": {"../../etc"}}, "path"},
		{"https://a.example/%2{n}", url.Values{"n": {"e"}}, "template"},
		{"https://a.example/s?q=x{q}", nil, "query"},
		{"https://a.example/s?q={q}", url.Values{"q": make([]string, 300)}, "query"},
		{"https://a.example/s?q={q}", url.Values{"q": {strings.Repeat("x", 9000)}}, "url"},

		{"https://{h}/", nil, "template"},
		{"https://a.example:{p}/", nil, "template"},
		{"{s}://a.example/", nil, "template"},
		{"https://a.{h}.example/", nil, "template"},
		{"https://u:p@a.example/", nil, "template"},
		{"https:///x", nil, "template"},
		{"https://a.example/#x{n}", nil, "template"},
		{"https://a.example/?{k}=1", nil, "template"},
		{"https://a.example/{", nil, "template"},
		{"https://a.example/{}", nil, "template"},
		{"https://a.example/}", nil, "template"},
		{"https://a.example/{a{b}}", nil, "template"},
		{"ftp://a.example/", nil, "template"},
		{"https://a.example/%zz", nil, "template"},
	} {
		got := "template"
		if parsed, err := ParseTemplate(tc.template); err == nil {
			if got, err = parsed.Expand(func(n string) []string { return tc.values[n] }); err != nil {
				got = rule(err)
			}
		}
		if got != tc.want {
			t.Errorf("%s with %v: %s; want %s", tc.template, tc.values, got, tc.want)
		}
	}
}

func TestPolicyOfATemplate(t *testing.T) {
	for template, ask := range map[string][3]string{ // what is asked for, and the rule that refuses it
		"http://127.0.0.1:8080/{x}":   {"http://127.0.0.1:8080/", ""},
		"http://localhost:8080/{x}":   {"http://127.0.0.1:8080/", "allow_hosts"},
		"http://10.1.2.3/":            {"http://10.1.2.4/", "address"},
		"http://10.1.2.3/?":           {"http://10.1.2.3:81/", "port"},
		"https://a.example/":          {"https://b.example/", "allow_hosts"},
		"https://a.example:8443/":     {"https://a.example:8443/", ""},
		"http://[::ffff:10.0.0.1]/":   {"http://10.0.0.1/", ""},
		"http://169.254.169.254/{x}/": {"http://169.254.169.254/x/", ""},
	} {
		parsed, err := ParseTemplate(template)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard(t, parsed.Policy()).Parse(ask[0]); rule(err) != ask[1] {
			t.Errorf("%s: %s is answered %v", template, ask[0], err)
		}
	}
}

// FuzzExpand puts values into a path and a query: the address that comes out has
// the same number of segments and pairs, and the values as they were.
func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"a", "..", "%2e", "a/b", "x&y=z", "a;b", "%", "\u00e9"} {
		f.Add(seed, seed)
	}
	parsed, err := ParseTemplate("https://a.example/one/{p}/x{p}.log?q={q}&n=5")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p, q string) {
		out, err := parsed.Expand(func(n string) []string { return []string{map[string]string{"p": p, "q": q}[n]} })
		if err != nil {
			return
		}
		u, err := url.Parse(out)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"", "one", p, "x" + p + ".log"}
		if got := strings.Split(u.Path, "/"); !slices.Equal(got, want) || u.Host != "a.example" || u.Fragment != "" || u.JoinPath().Path != u.Path {
			t.Fatalf("%q: %q", out, got)
		}
		if got := u.Query(); len(got) != 2 || got.Get("q") != q || got.Get("n") != "5" {
			t.Fatalf("%q: %v", out, got)
		}
	})
}
