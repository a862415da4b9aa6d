//go:build !windows

package daemon_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate/approval"
)

// Who is at the other end is looked for behind everything that costs less. Here it
// cannot be found out, so that whoever gets that far is turned away.
func TestOpenDoorsCheckWhatIsCheapFirst(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if err := os.Mkdir(h.path("policies"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.policy(t, leadsPolicy)
	h.write(t, servers{"a": fake()}, map[string]any{
		"opa":       map[string]any{"path": h.path("policies")},
		"approvals": map[string]any{"ask": []string{"webhook"}, "webhook": map[string]any{"url": "http://127.0.0.1:1/", "secret": hookSecret}},
	})
	r := h.newRunning(t)
	over := httptest.NewServer(r.Handler())
	defer over.Close()
	r.SignIn.Reached(over.URL)
	sealed, err := r.SignIn.Link("a", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	answer := decision("apr_1", "approve", "acme", "leads")
	for name, tt := range map[string]struct {
		method, path string
		signature    string
		want         int
	}{
		"no such page":             {http.MethodGet, "/oauth/x", "", http.StatusNotFound},
		"the document":             {http.MethodGet, "/oauth/client.json", "", http.StatusOK},
		"a link that is none":      {http.MethodGet, "/oauth/login/abc", "", http.StatusNotFound},
		"a link":                   {http.MethodGet, strings.TrimPrefix(sealed, over.URL), "", http.StatusForbidden},
		"no state":                 {http.MethodGet, "/oauth/callback?code=x", "", http.StatusBadRequest},
		"a state":                  {http.MethodGet, "/oauth/callback?code=x&state=" + rand.Text(), "", http.StatusForbidden},
		"an answer not signed":     {http.MethodPost, "/approvals/apr_1", "", http.StatusUnauthorized},
		"an answer signed badly":   {http.MethodPost, "/approvals/apr_1", "t=1,v1=00", http.StatusUnauthorized},
		"an answer to be read":     {http.MethodGet, "/approvals/apr_1", "", http.StatusNotFound},
		"an answer that is signed": {http.MethodPost, "/approvals/apr_1", hookSignature(hookSecret, time.Now(), answer), http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, over.URL+tt.path, strings.NewReader(string(answer)))
		if err != nil {
			t.Fatal(err)
		}
		if tt.signature != "" {
			req.Header.Set(approval.SignatureHeader, tt.signature)
		}
		resp, err := over.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", name, resp.Status, tt.want)
		}
	}
}

const (
	hookSecret  = "0123456789abcdef0123456789abcdef"
	leadsPolicy = `package toolgate

decision := {"allow": true, "obligations": {"approval": {"by": ["leads"]}}} if input.action == "tool.request"

else := true
`
)

// hookSignature is made as the documentation says, by other code than the gateway's.
func hookSignature(secret string, at time.Time, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(h.Sum(nil)))
}

// decision is what a receiver answers.
func decision(id, verdict, tenant, group string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"decision":%q,"subject":"erin","tenant":%q,"groups":[%q],"reason":"seen"}`, id, verdict, tenant, group)
}
