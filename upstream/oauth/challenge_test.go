package oauth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/upstream/oauth"
)

func TestParseChallenge(t *testing.T) {
	for _, tt := range []struct {
		header []string
		want   oauth.Challenge
		ok     bool
	}{
		{nil, oauth.Challenge{}, false},
		{[]string{`Basic realm="x"`}, oauth.Challenge{}, false},
		{[]string{`Bearer`}, oauth.Challenge{Bearer: true}, true},
		{[]string{`Bearer resource_metadata="https://m.example/a,b", scope="a b"`}, oauth.Challenge{ResourceMetadata: "https://m.example/a,b", Scope: []string{"a", "b"}, Bearer: true}, true},
		{[]string{`Basic realm="a, Bearer scope=evil", Bearer error="insufficient_scope", scope="w"`}, oauth.Challenge{Error: "insufficient_scope", Scope: []string{"w"}, Bearer: true}, true},
		{[]string{`Negotiate YWJj==, Bearer scope=one`}, oauth.Challenge{Scope: []string{"one"}, Bearer: true}, true},
		{[]string{`Digest nonce="q\"uoted"`, `bearer  Resource_Metadata = "https://m.example"`}, oauth.Challenge{ResourceMetadata: "https://m.example", Bearer: true}, true},
		{[]string{`Bearer scope="a", scope="b"`}, oauth.Challenge{Scope: []string{"a"}, Bearer: true}, true},
		{[]string{`Bearer scope="unended`}, oauth.Challenge{Scope: []string{"unended"}, Bearer: true}, true},
		{[]string{`Bearer error="<script>"`}, oauth.Challenge{Bearer: true}, true},
		{[]string{`DPoP resource_metadata="https://m.example"`}, oauth.Challenge{ResourceMetadata: "https://m.example", Bound: true}, true},
		{[]string{`DPoP algs="ES256 PS256"`, `Bearer scope="a", resource_metadata="https://m.example"`}, oauth.Challenge{ResourceMetadata: "https://m.example", Scope: []string{"a"}, Bound: true, Bearer: true}, true},
		{[]string{`Bearer error="invalid_token", scope="a", DPoP error="use_dpop_nonce", scope="b"`}, oauth.Challenge{Error: "use_dpop_nonce", Scope: []string{"a"}, Bound: true, Bearer: true}, true},
		{[]string{`DPoP scope="a"`, `DPoP scope="b", error="use_dpop_nonce"`}, oauth.Challenge{Scope: []string{"a"}, Bound: true}, true},
		{[]string{strings.Repeat("Basic x=y, ", 1000) + `Bearer`}, oauth.Challenge{}, false},
	} {
		got, ok := oauth.ParseChallenge(http.Header{"Www-Authenticate": tt.header})
		if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok {
			t.Errorf("%.80q: %v (-want +got):\n%s", tt.header, ok, diff)
		}
	}
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer resource_metadata="https://m.example", scope="a b"`)
	f.Add(`Basic a=b, Bearer c=d`)
	f.Add(`Negotiate abc==, Bearer`)
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := oauth.ParseChallenge(http.Header{"Www-Authenticate": {text}})
		if !ok && (c.ResourceMetadata != "" || c.Scope != nil || c.Error != "") {
			t.Errorf("%q is none and says %+v", text, c)
		}
		for _, s := range c.Scope {
			if strings.ContainsAny(s, " \"\\\r\n\x00") {
				t.Errorf("%q has the scope %q", text, s)
			}
		}
	})
}

func TestSelect(t *testing.T) {
	r := &oauth.Resource{Scopes: []string{"read", "write"}}
	m := &oauth.Metadata{Scopes: []string{"offline_access"}}
	for _, tt := range []struct {
		said   oauth.Challenge
		of     *oauth.Resource
		at     *oauth.Metadata
		before []string
		want   []string
	}{
		{oauth.Challenge{}, nil, nil, nil, nil},
		{oauth.Challenge{}, r, nil, nil, []string{"read", "write"}},
		{oauth.Challenge{Scope: []string{"admin"}}, r, nil, nil, []string{"admin"}},
		{oauth.Challenge{Scope: []string{"admin"}}, r, m, []string{"read"}, []string{"read", "admin", "offline_access"}},
	} {
		if diff := cmp.Diff(tt.want, oauth.Select(tt.said, tt.of, tt.at, tt.before)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt, diff)
		}
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"https://MCP.Example/": "https://mcp.example", "https://mcp.example/Mcp": "https://mcp.example/Mcp", "HTTPS://a:8443/x#y": "https://a:8443/x",
		"https://user:secret@a/x": "https://a/x",
	} {
		if got, err := oauth.Canonical(in); got != want || err != nil {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

func TestBrowserURLs(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://as.example/authorize?a=b%20c&d=e": true, "http://127.0.0.1:1/authorize": true,
		"http://as.example/": false, "javascript:alert(1)": false, "data:text/html,x": false, "file:///etc/passwd": false, "vbscript:x": false,
		"https://a/$(id)": false, "https://a/`id`": false, "https://a/\"x": false, "https://a/x y": false, "https://ok@a/": false, "": false,
	} {
		if err := oauth.CheckBrowserURL(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}
