package credential_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/upstream/credential"
)

// asked returns what a browser is sent away with.
func (w *world) asked(t *testing.T, way credential.Way) url.Values {
	t.Helper()
	to, _, err := w.flow.Begin(t.Context(), w.source, "alice", way)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

// TestClientDocuments has the gateway known by its own description where the
// authorization server reads such and can reach it, and registered everywhere else.
func TestClientDocuments(t *testing.T) {
	const document = "https://gw.example/oauth/client.json"
	for name, tt := range map[string]struct {
		document  string
		supported any
		registers bool
	}{
		"supported":       {document, true, false},
		"not supported":   {document, false, true},
		"nothing said":    {document, nil, true},
		"no document":     {"", true, true},
		"not https":       {"http://127.0.0.1:1/oauth/client.json", true, true},
		"without a path":  {"https://gw.example", true, true},
		"with a fragment": {document + "#x", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.a.Metadata = func(m map[string]any) { m["client_id_metadata_document_supported"] = tt.supported }
			q := w.asked(t, credential.Way{Redirect: redirect, Document: tt.document})
			if registered := len(w.a.Requests("/register")) == 1; registered != tt.registers || (q.Get("client_id") == document) == tt.registers {
				t.Errorf("the client is %q, registered: %t", q.Get("client_id"), registered)
			}
		})
	}
}

// TestStepUp has a server want more rights than a login gave: the next login asks for
// them besides those it had, the old token stays, and it ends after a few times.
func TestStepUp(t *testing.T) {
	w := newWorld(t)
	w.login(t, "alice")
	header, err := w.source.Headers(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	sent := header.Clone()
	refuse := func(scope string) error {
		t.Helper()
		again, err := w.source.Refused(t.Context(), "alice", sent, http.StatusForbidden, http.Header{
			"Www-Authenticate": {fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q`, scope)},
		})
		if again {
			t.Error("the same token is sent again")
		}
		return err
	}
	var want []string
	for i := range 3 {
		scope := fmt.Sprintf("right-%d", i)
		want = append(want, scope)
		login, ok := errors.AsType[*credential.LoginError](refuse(scope))
		if !ok || !login.NeedsLogin() {
			t.Fatalf("time %d: %v", i, login)
		}
		if got := strings.Fields(w.asked(t, credential.Way{Redirect: redirect}).Get("scope")); !slices.Equal(got, want) {
			t.Errorf("time %d: asked for %q, want %q", i, got, want)
		}
		if _, got, err := w.source.Where(t.Context(), "alice"); err != nil || !slices.Equal(got, want) {
			t.Errorf("time %d: a person is told of %q, want %q: %v", i, got, want, err)
		}
		if now, err := w.source.Headers(t.Context(), "alice"); err != nil || now.Get("Authorization") != sent.Get("Authorization") {
			t.Errorf("time %d: what the token allows is not done any more: %v", i, err)
		}
	}
	if login, ok := errors.AsType[*credential.LoginError](refuse("right-3")); !ok || login.NeedsLogin() {
		t.Errorf("after three times: %v", login)
	}
	again, err := w.source.Refused(t.Context(), "alice", sent, http.StatusForbidden, http.Header{})
	if again || err != nil {
		t.Errorf("a refusal that is not a matter of scopes: %v, %v", again, err)
	}
	// Who has signed in for them may be asked for more again.
	w.login(t, "alice")
	if header, err = w.source.Headers(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	sent = header.Clone()
	if login, ok := errors.AsType[*credential.LoginError](refuse("right-4")); !ok || !login.NeedsLogin() {
		t.Errorf("after another login: %v", login)
	}
}
