package spicedb_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/mcp"
)

func TestEncodeID(t *testing.T) {
	long := strings.Repeat("x", 1025)
	tests := []struct{ text, want string }{
		{"search", "search"},
		{"a.b", "a=2Eb"},
		{"alice@x.io", "alice=40x=2Eio"},
		{"a=b", "a=3Db"},
		{"a/b|c_d+e-f", "a/b|c_d+e-f"},
		{"ü", "=C3=BC"},
		{"*", "=2A"},
		{"", ""},
		{strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		{long, fmt.Sprintf("h=sha256-%x", sha256.Sum256([]byte(long)))},
	}
	for _, tt := range tests {
		if got := spicedb.EncodeID(tt.text); got != tt.want {
			t.Errorf("%.40q is %.40q, want %.40q", tt.text, got, tt.want)
		}
	}
}

// decode is the inverse of EncodeID, written apart from it.
func decode(t *testing.T, id string) string {
	t.Helper()
	var text strings.Builder
	for i := 0; i < len(id); i++ {
		if id[i] != '=' {
			text.WriteByte(id[i])
			continue
		}
		if i+2 >= len(id) {
			t.Fatalf("%q ends in an escape", id)
		}
		const hex = "0123456789ABCDEF"
		high, low := strings.IndexByte(hex, id[i+1]), strings.IndexByte(hex, id[i+2])
		if high < 0 || low < 0 {
			t.Fatalf("%q has a bad escape at %d", id, i)
		}
		text.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return text.String()
}

func FuzzEncodeID(f *testing.F) {
	for _, text := range []string{"", "a.b", "a b", "=2E", "h=sha256-00", "alice@example.com", "ü\xff\x00", strings.Repeat("=", 400), "*"} {
		f.Add(text, "a=2Eb")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := spicedb.EncodeID(a), spicedb.EncodeID(b)
		if (a == b) != (x == y) {
			t.Fatalf("%q and %q are %q and %q", a, b, x, y)
		}
		if a != "" && !spicedbtest.ValidID(x) {
			t.Fatalf("%q is %q, which SpiceDB does not take", a, x)
		}
		if strings.HasPrefix(x, "h=s") {
			return // a digest
		}
		if back := decode(t, x); back != a {
			t.Fatalf("%q is %q, which is %q", a, x, back)
		}
	})
}

// A template never makes one object of two things.
func FuzzTemplate(f *testing.F) {
	for _, part := range []string{"a", "a/b", "/", "", "|", "a=2Fb", "-", "_x_", strings.Repeat("z", 600)} {
		f.Add(part, "b", "a", "/b")
		f.Add("a"+part, part, part+"a", "b")
	}
	templates := []string{"server/original", "server|original", "{server}/{original}", "{server}-{original}", "x_{server}_y{original}z", "{server}+-{original}"}
	f.Fuzz(func(t *testing.T, s1, o1, s2, o2 string) {
		for _, template := range templates {
			p, err := spicedb.NewBuiltin(spicedb.Mapping{ObjectID: template}, spicedb.Config{})
			if err != nil {
				t.Fatal(err)
			}
			a, b := objectOf(t, p, s1, o1), objectOf(t, p, s2, o2)
			if a == "" || b == "" {
				continue // refused
			}
			if (a == b) != (s1 == s2 && o1 == o2) {
				t.Fatalf("%s: %q,%q and %q,%q are %q and %q", template, s1, o1, s2, o2, a, b)
			}
			if !spicedbtest.ValidID(a) {
				t.Fatalf("%s: %q,%q is %q", template, s1, o1, a)
			}
		}
	})
}

// objectOf is the object id in the question about a tool.
func objectOf(t *testing.T, p *spicedb.Builtin, server, original string) string {
	t.Helper()
	r := spicedbtest.Tool("exposed", "alice")
	r.Server, r.Original = server, original
	e, err := p.Explain(t.Context(), &r)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(strings.ReplaceAll(e.Question, "'", ""), "tool:")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

func TestTemplates(t *testing.T) {
	r := gate.Request{
		Action: gate.Call, Kind: mcp.Tool, Server: "gh", Original: "a/b", Exposed: "gh__a.b", CapabilityID: "cap_1",
		Identity: gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "https://i", Tenant: "acme", Subject: "al|ice"}}),
	}
	tests := []struct{ object, subject, want string }{
		{"", "", "'tool:gh__a=2Eb' execute 'user:al|ice'"},
		{"original", "", "'tool:a/b' execute 'user:al|ice'"},
		{"server/original", "", "tool:gh/a=2Fb execute 'user:al|ice'"},
		{"tenant/exposed", "tenant/subject", "tool:acme/gh__a=2Eb execute 'user:acme/al|ice'"},
		{"{tenant}|{exposed}", "{tenant}|{subject}", "'tool:acme|gh__a=2Eb' execute 'user:acme|al=7Cice'"},
		{"{capability}", "{issuer}/{subject}", "tool:cap_1 execute 'user:https=3A=2F=2Fi/al|ice'"},
		{"prod-{server}-{original}", "u_{subject}", "tool:prod-gh-a/b execute 'user:u_al|ice'"},
		{"{exposed}", "{persona}/{subject}", "tool:gh__a=2Eb execute 'user:/al|ice'"},
	}
	unquote := strings.NewReplacer("'", "")
	for _, tt := range tests {
		p, err := spicedb.NewBuiltin(spicedb.Mapping{ObjectID: tt.object, SubjectID: tt.subject}, spicedb.Config{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Explain(t.Context(), &r)
		if got := unquote.Replace(e.Question); err != nil || got != "zed permission check "+unquote.Replace(tt.want) {
			t.Errorf("%q and %q: %q, %v", tt.object, tt.subject, e.Question, err)
		}
		if strings.Contains(e.Question, "|") != strings.Contains(e.Question, "'") {
			t.Errorf("a pipe that a shell would take: %s", e.Question)
		}
	}
}

// What would make many things one object is refused.
func TestEmptyPartsAreRefused(t *testing.T) {
	r := spicedbtest.Tool("search", "alice")
	r.CapabilityID = ""
	p, err := spicedb.NewBuiltin(spicedb.Mapping{ObjectID: "{capability}"}, spicedb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.Check(t.Context(), &r)
	if err == nil || d.Effect != gate.Deny || d.Reason != spicedb.ReasonMisconfigured {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestTellsApart(t *testing.T) {
	tests := []struct {
		subject          string
		tenants, issuers bool
	}{
		{"", false, false},
		{"{tenant}/{subject}", true, false},
		{"issuer/subject", false, true},
		{"{issuer}|{tenant}|{subject}", true, true},
		{"{tenant}{subject}", false, false}, // is no template
	}
	for _, tt := range tests {
		if tenants, issuers := (spicedb.Mapping{SubjectID: tt.subject}).TellsApart(); tenants != tt.tenants || issuers != tt.issuers {
			t.Errorf("%q: %v, %v", tt.subject, tenants, issuers)
		}
	}
}
