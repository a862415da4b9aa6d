package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

// FuzzBearer: for any header there is one visible token or one of the two errors.
func FuzzBearer(f *testing.F) {
	for _, seed := range []string{"", "Bearer", "Bearer ", "Bearer x", "bearer a.b.c", "Bearer a b", "Bearer a,b", "Basic x", "Bearer\tx", "Bearer  x", "Bearer \u00e9", "Bearer x "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		token, err := auth.Bearer(r)
		if err != nil {
			if token != "" || !errors.Is(err, gate.ErrBadCredential) {
				t.Fatalf("token %q with the error %v", token, err)
			}
			return
		}
		if !strings.EqualFold(header, "Bearer "+token) || len(token) > auth.TokenBytes {
			t.Fatalf("token %q of %q", token, header)
		}
		for _, c := range []byte(token) {
			if c <= ' ' || c > '~' || c == ',' {
				t.Fatalf("token %q", token)
			}
		}
	})
}

// FuzzCompact compares the token parser with the library's: the library accepts
// whatever ours accepts, and both read the same.
func FuzzCompact(f *testing.F) {
	part := func(s string) string { return b64.EncodeToString([]byte(s)) }
	for _, seed := range []string{
		part(`{"alg":"ES256"}`) + "." + part(`{"iss":"a","exp":1e3}`) + ".AAAA",
		part(`{"alg":"none"}`) + "." + part(`{"iss":"a"}`) + ".",
		part(`{"alg":"ES256","alg":"none"}`) + "." + part(`{"iss":"a"}`) + ".AAAA",
		part(`{"alg":"RS256","kid":"\u006b"}`) + "." + part(`{"iss":"a","aud":["x"]}`) + ".AA",
		"a.b.c", "..", "....", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		header, claims, signed, err := auth.Compact(token)
		if err != nil {
			return
		}
		if !strings.HasPrefix(token, signed+".") || strings.Count(token, ".") != 2 {
			t.Fatalf("the signature of %q would be over %q", token, signed)
		}
		theirs := jwt.MapClaims{}
		parsed, _, err := jwt.NewParser(jwt.WithJSONNumber(), jwt.WithStrictDecoding()).ParseUnverified(token, theirs)
		if err != nil && !errors.Is(err, jwt.ErrTokenUnverifiable) { // an algorithm that it does not know
			t.Fatalf("the library refuses %q: %v", token, err)
		}
		if diff := cmp.Diff(map[string]any(theirs), claims); diff != "" {
			t.Fatalf("claims (-library +ours):\n%s", diff)
		}
		if parsed.Header["alg"] != header["alg"] || parsed.Header["kid"] != header["kid"] {
			t.Fatalf("header %v, the library's %v", header, parsed.Header)
		}
	})
}

// FuzzObject compares the strict decoder with an independent strict parser.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"a":2}`, `{"a":{"b":[1,{"c":1,"c":1}]}}`, `{"a":1}{}`, `{"a":1} x`, `[]`, `null`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}",
		`{"a":12345678901234567890}`, `{"a":1,}`, `{"a" 1}`, strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20), `{"n\u0061me":1,"name":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		object, err := auth.DecodeObject(data)
		if err != nil {
			return
		}
		if object == nil {
			t.Fatal("no object and no error")
		}
		// Ours accepts escaped halves of surrogate pairs, which are refused when a
		// claim is read.
		dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowInvalidUTF8(true))
		if err := dec.SkipValue(); err != nil {
			t.Fatalf("the strict parser refuses %q: %v", data, err)
		}
		if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
			t.Fatalf("something behind %q: %v", data, err)
		}
		again, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		same, err := auth.DecodeObject(again)
		if err != nil || cmp.Diff(object, same) != "" {
			t.Fatalf("%q comes back as %q, error %v", data, again, err)
		}
	})
}

// FuzzAudience: two audiences are equal only if they differ in the case of ASCII
// letters before the path.
func FuzzAudience(f *testing.F) {
	for _, seed := range [][2]string{
		{"https://gw/mcp", "HTTPS://GW/mcp"},
		{"https://gw/mcp", "https://gw/MCP"},
		{"https://gw", "https://gw/"},
		{"x://\u212a", "x://k"},
		{"https://A@b", "https://a@b"},
		{"a", "A"},
		{"1://A", "1://a"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if auth.CanonicalAudience(auth.CanonicalAudience(a)) != auth.CanonicalAudience(a) {
			t.Fatalf("%q has no one form", a)
		}
		if auth.CanonicalAudience(a) != auth.CanonicalAudience(b) || a == b {
			return
		}
		if len(a) != len(b) {
			t.Fatalf("%q and %q are taken for one", a, b)
		}
		authority := strings.Index(a, "://") + 3
		if end := strings.IndexAny(a[authority:], "/?#"); end >= 0 && a[authority+end:] != b[authority+end:] {
			t.Fatalf("%q and %q are taken for one", a, b)
		}
		for i := range len(a) {
			if x, y := a[i], b[i]; x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z') {
				t.Fatalf("%q and %q are taken for one", a, b)
			}
		}
	})
}

// FuzzChallenge: no scope ends its quoted string.
func FuzzChallenge(f *testing.F) {
	for _, seed := range []string{"a", `a"`, "a b", "a\\", "a\r\nX: y", "", "\u00e9"} {
		f.Add(seed)
	}
	x, err := auth.NewResource(auth.ResourceOptions{PublicURL: "https://gw.example", AuthorizationServers: []string{"https://as.example"}})
	if err != nil {
		f.Fatal(err)
	}
	plain := regexp.MustCompile(`^Bearer error="insufficient_scope", scope="[!#-\[\]-~]+( [!#-\[\]-~]+)*", resource_metadata="[!#-\[\]-~]+"$`)
	f.Fuzz(func(t *testing.T, scope string) {
		r := &http.Request{Header: http.Header{}}
		r.URL = &url.URL{Path: "/mcp/s/" + scope}
		f := x.Refuse(r, &auth.ScopeError{Needed: []string{"need"}, Granted: []string{scope}})
		if !plain.MatchString(f.Challenge) {
			t.Fatalf("challenge %q", f.Challenge)
		}
	})
}
