package credential_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

const jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// newWorkload is a world in which the gateway shows what is in a file.
func newWorkload(t *testing.T) (w *world, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "assertion")
	write(t, file, "canary.assertion.1\n")
	w = newWorld(t).with(func(set *credential.Settings) {
		set.Mode, set.Shared, set.Assertion, set.Scopes = credential.Workload, true, file, []string{"read"}
	})
	return w, file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// refuse has the server refuse the token that is sent now.
func (w *world) refuse(t *testing.T) error {
	t.Helper()
	header, err := w.source.Headers(t.Context(), "")
	if err != nil {
		return err
	}
	_, err = w.source.Refused(t.Context(), "", header.Clone(), http.StatusUnauthorized, http.Header{"Www-Authenticate": {"Bearer"}})
	return err
}

// TestWorkload has the assertion of the file traded for tokens, each time as it is then.
func TestWorkload(t *testing.T) {
	w, file := newWorkload(t)
	if _, err := w.source.Headers(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	write(t, file, "canary.assertion.2")
	if err := w.refuse(t); err != nil {
		t.Fatal(err)
	}
	asked := w.a.Requests("/token")
	if len(asked) != 2 {
		t.Fatalf("%d tokens were asked for, want 2", len(asked))
	}
	for i, r := range asked {
		want := []string{"canary.assertion.1", "canary.assertion.2"}[i]
		if r.Form.Get("grant_type") != jwtBearer || r.Form.Get("assertion") != want || r.Form.Get("resource") != w.s.URL || r.Form.Get("scope") != "read" ||
			r.Form.Has("client_id") || r.Auth != "" {
			t.Errorf("request %d is %v with %q", i, r.Form, r.Auth)
		}
	}
	if n := len(w.a.Requests("/register")) + len(w.a.Requests("/authorize")); n != 0 {
		t.Errorf("somebody registers or signs in %d times", n)
	}
}

// TestWorkloadRejected has an authorization server refuse an assertion: it is asked
// once, however many callers there are, and once more for another assertion. What is no
// word on the assertion is asked again.
func TestWorkloadRejected(t *testing.T) {
	for _, code := range []string{"invalid_grant", "invalid_scope", "unauthorized_client", "unsupported_grant_type", "something_else"} {
		w, file := newWorkload(t)
		w.a.Token = func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusBadRequest)
			_, _ = rw.Write([]byte(`{"error":"` + code + `","error_description":"` + oauthtest.Evil + `"}`))
			return true
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := w.source.Headers(t.Context(), "")
				login, typed := errors.AsType[*credential.LoginError](err)
				said, known := errors.AsType[*oauth.Error](err)
				if !typed || login.NeedsLogin() || !known || said.Code != code || strings.Contains(err.Error(), "canary") {
					t.Errorf("%s: %v", code, err)
				}
			})
		}
		all.Wait()
		if n := len(w.a.Requests("/token")); n != 1 {
			t.Errorf("%s: asked %d times, want once", code, n)
		}
		w.source.ForgetAll()
		if _, err := w.source.Headers(t.Context(), ""); err == nil || len(w.a.Requests("/token")) != 1 {
			t.Errorf("%s: asked again for the same assertion (%v)", code, err)
		}
		w.a.Token = nil
		write(t, file, "canary.assertion.2")
		if _, err := w.source.Headers(t.Context(), ""); err != nil || len(w.a.Requests("/token")) != 2 {
			t.Errorf("%s: with another assertion: %v, %d requests", code, err, len(w.a.Requests("/token")))
		}
		for _, r := range w.a.Requests("/token") {
			if r.Form.Get("grant_type") != jwtBearer {
				t.Errorf("%s: fell back to %s", code, r.Form.Get("grant_type"))
			}
		}
	}
}

// TestWorkloadStepUpRefused has more rights be refused: what was given goes on, and is
// renewed with the rights that it had.
func TestWorkloadStepUpRefused(t *testing.T) {
	w, _ := newWorkload(t)
	header, err := w.source.Headers(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	w.a.Token = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.PostForm.Get("scope"), "admin") {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = rw.Write([]byte(`{"error":"invalid_scope"}`))
		return true
	}
	again, err := w.source.Refused(t.Context(), "", header.Clone(), http.StatusForbidden, http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="admin"`}})
	if again || err == nil {
		t.Errorf("%v, %v", again, err)
	}
	if now, err := w.source.Headers(t.Context(), ""); err != nil || now.Get("Authorization") != header.Get("Authorization") {
		t.Errorf("what the token allows is not done any more: %v", err)
	}
	w.a.Revoke(false)
	if err := w.refuse(t); err != nil {
		t.Errorf("the token is not renewed: %v", err)
	}
}

// TestBadAssertions has files that hold no assertion: nobody is asked, and nothing of
// them is told.
func TestBadAssertions(t *testing.T) {
	w, file := newWorkload(t)
	for name, text := range map[string]string{
		"empty": "", "one part": "canary", "two lines": "canary.a.b\ncanary.a.b", "not ASCII": "canary.ä.b", "a NUL": "canary.a\x00.b",
		"large": "canary.a." + strings.Repeat("b", 64<<10), "larger": "canary.a." + strings.Repeat("b", 1<<20), "spaces": strings.Repeat(" ", 70<<10) + "canary.a.b",
	} {
		write(t, file, text)
		_, err := w.source.Headers(t.Context(), "")
		if login, ok := errors.AsType[*credential.LoginError](err); !ok || login.NeedsLogin() || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, gone := range []string{filepath.Join(file, "x"), filepath.Dir(file), os.DevNull} {
		w.with(func(set *credential.Settings) { set.Assertion = gone })
		if _, err := w.source.Headers(t.Context(), ""); err == nil {
			t.Errorf("%s: there is a token", gone)
		}
	}
	if n := len(w.a.Requests("/token")); n != 0 {
		t.Errorf("%d tokens were asked for", n)
	}
}

// TestWorkloadBound has the token of a workload bound to a key, which a repetition for
// the nonce does not count as another try.
func TestWorkloadBound(t *testing.T) {
	w, _ := newWorkload(t)
	w.a.Proofs, w.s.Proofs = oauthtest.Nonces(), &oauthtest.Proofs{}
	if key := w.arrives(t, ""); key == "" {
		t.Error("the token is bound to nothing")
	}
	if n := len(w.a.Requests("/token")); n != 2 {
		t.Errorf("%d requests, want one and its repetition with the nonce", n)
	}
	for _, wrong := range append(w.a.Proofs.Wrong(), w.s.Proofs.Wrong()...) {
		t.Error(wrong)
	}
}
