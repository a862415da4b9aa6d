package oauth_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/upstream/oauth"
)

func parsed(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// claims returns what a proof says.
func claims(t *testing.T, proof string) map[string]any {
	t.Helper()
	body, err := base64.RawURLEncoding.DecodeString(strings.Split(proof, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestProofTargets holds what a proof says of where its request is sent to.
func TestProofTargets(t *testing.T) {
	k, err := oauth.NewProofKey("ES256")
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"https://mcp.example/mcp":                  "https://mcp.example/mcp",
		"https://mcp.example/mcp?a=b#c":            "https://mcp.example/mcp",
		"HTTPS://MCP.example:443":                  "https://mcp.example/",
		"http://127.0.0.1:8080/a%2Fb/":             "http://127.0.0.1:8080/a%2Fb/",
		"http://mcp.example:80/":                   "http://mcp.example/",
		"https://user:canary@mcp.example:8443/mcp": "https://mcp.example:8443/mcp",
		"https://[::1]:443/mcp":                    "https://[::1]/mcp",
	} {
		proof, err := k.Prove(http.MethodPost, parsed(t, address), "token", "nonce")
		if err != nil {
			t.Fatal(err)
		}
		if got := claims(t, proof)["htu"]; got != want {
			t.Errorf("%s: htu is %v, want %s", address, got, want)
		}
	}
	proof, err := k.Prove(http.MethodPost, parsed(t, "https://as.example/token"), "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"ath", "nonce"} {
		if v, ok := claims(t, proof)[absent]; ok {
			t.Errorf("a proof without %s has %v", absent, v)
		}
	}
}

// TestProofsAreUnique has many proofs made at once.
func TestProofsAreUnique(t *testing.T) {
	k, err := oauth.NewProofKey("ES256")
	if err != nil {
		t.Fatal(err)
	}
	to := parsed(t, "https://mcp.example/mcp")
	var seen sync.Map
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 20 {
				proof, err := k.Prove(http.MethodPost, to, "token", "")
				if err != nil {
					t.Error(err)
					return
				}
				if _, twice := seen.LoadOrStore(claims(t, proof)["jti"], true); twice {
					t.Error("two proofs have one jti")
				}
			}
		})
	}
	all.Wait()
}

// TestProofKeysAsText has keys outlive the process, and shown to nobody.
func TestProofKeysAsText(t *testing.T) {
	for _, algorithm := range oauth.ProofAlgorithms {
		k, err := oauth.NewProofKey(algorithm)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{"key": k})
		if err != nil {
			t.Fatal(err)
		}
		var back struct{ Key *oauth.ProofKey }
		if err := json.Unmarshal(text, &back); err != nil || back.Key.Thumbprint() != k.Thumbprint() || back.Key.Algorithm() != algorithm {
			t.Errorf("%s: %v comes back as %v (%v)", algorithm, k, back.Key, err)
		}
		private, _ := k.MarshalText()
		for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v", k, k)} {
			if strings.Contains(shown, string(private)) || !strings.Contains(shown, k.Thumbprint()) {
				t.Errorf("shown as %s", shown)
			}
		}
	}
	for _, bad := range []string{`"canary"`, `""`, `"Y2FuYXJ5"`, `7`} {
		var k oauth.ProofKey
		if err := json.Unmarshal([]byte(bad), &k); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, algorithm := range []string{"", "none", "HS256", "RS256"} {
		if _, err := oauth.NewProofKey(algorithm); err == nil {
			t.Errorf("there is a key for %q", algorithm)
		}
	}
}

// TestNoncesAreBounded has more origins give nonces than are remembered, and answers
// bring what is none.
func TestNoncesAreBounded(t *testing.T) {
	var n oauth.Nonces
	at := func(i int) *url.URL { return parsed(t, fmt.Sprintf("https://h%d.example/x", i)) }
	for i := range 1000 {
		n.Accepted(at(i), "old", http.Header{"Dpop-Nonce": {fmt.Sprint("nonce-", i)}})
	}
	known := 0
	for i := range 1000 {
		switch n.Newest(at(i)) {
		case "":
		case fmt.Sprint("nonce-", i):
			known++
		default:
			t.Errorf("origin %d has the nonce %q", i, n.Newest(at(i)))
		}
	}
	if known != 64 || n.Newest(at(999)) == "" {
		t.Errorf("%d nonces are remembered, want 64 with the newest", known)
	}
	newest := n.Newest(at(999))
	for _, bad := range [][]string{nil, {""}, {"a", "b"}, {"a b"}, {`"a"`}, {"a\\"}, {"ä"}, {strings.Repeat("x", 3000)}} {
		n.Accepted(at(999), "", http.Header{"Dpop-Nonce": bad})
		if n.Newest(at(999)) != newest {
			t.Errorf("%.20q is taken for a nonce", bad)
		}
	}
	if n.Accepted(at(999), "worked", http.Header{}); n.Newest(at(999)) != "worked" {
		t.Errorf("the nonce that was accepted is not kept, but %q", n.Newest(at(999)))
	}
	var none *oauth.Nonces
	if none.Accepted(at(1), "x", http.Header{}); none.Newest(at(1)) != "" {
		t.Error("who remembers nothing remembers")
	}
}
