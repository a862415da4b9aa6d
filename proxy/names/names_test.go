package names

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestExposed(t *testing.T) {
	long := strings.Repeat("x", 41)
	tests := []struct {
		name, namespace, original string
		twin                      bool
		want                      string
	}{
		{"lossless", "gh", "create_issue-2", false, "gh__create_issue-2"},
		{"just long enough", "gh", long, false, "gh__" + long},
		{"cut", "gh", long + "y", false, "gh__" + long[:33] + "_5z375vy"},
		{"sanitised", "gh", "a.b", false, "gh__a_b_kmnaec4"},
		{"not ASCII", "gh", "größe", false, ""},
		{"the shape of a changed name", "gh", "a_b_kmnaec4", false, "gh__a_b_kmnaec4"},
		{"twin", "gh", "Read", true, ""},
		{"no namespace", "", "any thing/ü", false, "any thing/ü"},
	}
	for _, tt := range tests {
		got := Exposed(tt.namespace, "github", tt.original, tt.twin)
		if tt.want == "" {
			if !regexp.MustCompile(`^gh__[A-Za-z0-9_-]*_[a-z2-7]{7}$`).MatchString(got) {
				t.Errorf("%s: %q has no hash", tt.name, got)
			}
			continue
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestURIRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pieces := []string{"file://", "ui://", "+", "a", "/", "é", "%2f", "{x}", "gh", "gh+", "ui:", "//", "?", "#", ":"}
	for range 5000 {
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		uri := b.String()
		for _, namespace := range []string{"", "gh", "a-b"} {
			exposed := URI(namespace, uri)
			back, ok := Original(namespace, exposed)
			if !ok || back != uri {
				t.Fatalf("%q in %q is exposed as %q, which leads back to %q, %t", uri, namespace, exposed, back, ok)
			}
			if namespace == "" {
				continue
			}
			if ns, ok := Namespace(mcp.Resource, exposed); !ok || ns != namespace {
				t.Fatalf("%q names the namespace %q, want %q", exposed, ns, namespace)
			}
			if strings.HasPrefix(uri, "ui://") != strings.HasPrefix(exposed, "ui://") {
				t.Fatalf("%q is exposed as %q", uri, exposed)
			}
		}
	}
	if got := URI("gh", "file:///x"); got != "gh+file:///x" {
		t.Errorf("%q", got)
	}
	if got := URI("gh", "ui://app/x"); got != "ui://gh+app/x" {
		t.Errorf("%q", got)
	}
	if _, ok := Original("gh", "hub+file:///x"); ok {
		t.Error("the URI of another namespace was taken")
	}
}

// What servers take for another resource than it says is refused.
func TestIndirectURIs(t *testing.T) {
	for _, uri := range []string{
		"file:///ok/readme%00", "file:///ok/readme%2500.txt", "file:///ok/..;/secret/key", "file:///ok/..;a=1/key", "file:///ok/..%3b/key",
		"file:///ok/%2e%2e%3Bx/key", "file:///ok/.;/key", "file:///ok/..", "file:///ok/%252e%252e/key",
		"file:///ok/..%09/x", "file:///ok/%c0%ae%c0%ae/x", "file:///ok/a%0ab", "file:///ok/%E2%80%AE", "file:///ok/\u202e", "file:///ok/%c2%85", "file:///ok/%7f", "file:///ok/\xc0\xae",
	} {
		if Direct(uri) {
			t.Errorf("%s is taken", uri)
		}
	}
	for _, uri := range []string{"file:///ok/read;me", "file:///ok/a;v=1/b", "file:///ok/..a/b", "mem://a%20b", "x:;", "file:///ok/%C3%A9/é", "x://100%"} {
		if !Direct(uri) {
			t.Errorf("%s is refused", uri)
		}
	}
}
