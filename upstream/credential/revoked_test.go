package credential_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/upstream/credential"
)

// TestForgottenWhileRead has a login change between the moment at which a call has read
// it, or renewed it, and the moment at which it is used: nothing is sent that is not
// kept any more, and a login that came in between is not overlooked.
func TestForgottenWhileRead(t *testing.T) {
	for name, tt := range map[string]struct {
		after     string // which answer of the vault
		in, renew bool   // somebody is signed in before, with a token that is over
		good      bool   // somebody is signed in afterwards
	}{
		"leaves while it is read":      {"find", true, false, false},
		"leaves before it is renewed":  {"lease", true, true, false},
		"leaves while it is renewed":   {"renew", true, true, false},
		"signs in while none is found": {"find", false, false, true},
		"signs in while it is read":    {"find", true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.a.Rotate = true
			old := http.Header{}
			if tt.in {
				w.login(t, "alice")
			}
			if tt.renew {
				header, err := w.source.Headers(t.Context(), "alice")
				if err != nil {
					t.Fatal(err)
				}
				old = header.Clone()
				w.a.Revoke(false)
			}
			back, changed := w.answer(t, "alice"), false
			w.vault.between = func(what string) {
				if what == tt.after && !changed {
					changed = true
					if !tt.good {
						leaves(t, w)
					} else if err := w.finish(t, back, "own"); err != nil {
						t.Error(err)
					}
				}
			}
			var err error
			if tt.renew {
				var again bool
				if again, err = w.source.Refused(t.Context(), "alice", old, http.StatusUnauthorized, http.Header{}); again {
					t.Error("a token that was given back is sent")
				}
			} else {
				_, err = w.source.Headers(t.Context(), "alice")
			}
			if !changed {
				t.Fatal("nothing came in between")
			}
			if tt.after == "lease" {
				givenBack(t, w)
			}
			_, missing := errors.AsType[*credential.LoginError](err)
			if tt.good && err != nil || !tt.good && !missing {
				t.Errorf("answered %v", err)
			}
			header, err := w.source.Headers(t.Context(), "alice")
			if tt.good && err != nil || !tt.good && err == nil {
				t.Errorf("the next call has %v, %v", header, err)
			}
			kept, _, _ := w.vault.Find(t.Context(), "web", "alice")
			if tt.good && header.Get("Authorization") != "Bearer "+accessIn(t, kept.Body) {
				t.Error("it is sent with another token than the one that is kept")
			}
		})
	}
}

// givenBack holds that the authority was told of everything that it still renews by.
func givenBack(t *testing.T, w *world) {
	t.Helper()
	var told []string
	for _, r := range w.a.Requests("/revoke") {
		told = append(told, r.Form.Get("token"))
	}
	for _, secret := range w.a.Secrets() {
		if strings.HasPrefix(secret, "refresh-") && !slices.Contains(told, secret) {
			t.Errorf("told of %q, and not of %q", told, secret)
		}
	}
}

func leaves(t *testing.T, w *world) {
	t.Helper()
	if had, err := w.flow.Leave(t.Context(), w.source, "alice"); !had || err != nil {
		t.Errorf("Leave = %v, %v", had, err)
	}
}

// TestReplacedByAnotherConfiguration has a gateway with another configuration replace a
// login while it is about to be renewed: what is of a client that this one is not is
// not sent.
func TestReplacedByAnotherConfiguration(t *testing.T) {
	w := newWorld(t)
	w.a.Rotate = true
	w.login(t, "alice")
	header, err := w.source.Headers(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	sent := header.Clone()
	kept, _, _ := w.vault.Find(t.Context(), "web", "alice")
	var body map[string]any
	if err := json.Unmarshal(kept.Body, &body); err != nil {
		t.Fatal(err)
	}
	body["configured"] = true // a client of the configuration, of which there is none here
	token, _ := body["token"].(map[string]any)
	token["access"] = "of-another-client"
	foreign, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	replace := sync.OnceFunc(func() {
		if _, err := w.vault.Put(t.Context(), kept.Key, foreign); err != nil {
			t.Error(err)
		}
	})
	w.vault.between = func(what string) {
		if what == "find" {
			replace()
		}
	}
	again, err := w.source.Refused(t.Context(), "alice", sent, http.StatusUnauthorized, http.Header{})
	if _, missing := errors.AsType[*credential.LoginError](err); again || !missing {
		t.Errorf("answered %v, %v", again, err)
	}
	if header, err := w.source.Headers(t.Context(), "alice"); err == nil {
		t.Errorf("the next call is sent with %v", header)
	}
}

// accessIn is the access token of what is kept.
func accessIn(t *testing.T, body []byte) string {
	t.Helper()
	var kept struct{ Token struct{ Access string } }
	if err := json.Unmarshal(body, &kept); err != nil || kept.Token.Access == "" {
		t.Fatalf("%s: %v", body, err)
	}
	return kept.Token.Access
}

// TestLeavingUnderLoad has somebody leave while calls of two processes renew their
// token: whoever comes after that is not signed in, and nothing of theirs is kept.
func TestLeavingUnderLoad(t *testing.T) {
	w := newWorld(t)
	w.a.Rotate = true
	other, _ := w.another()
	for range 5 {
		w.login(t, "alice")
		w.login(t, "bob")
		other.ForgetAll()
		var all sync.WaitGroup
		begun := make(chan struct{}, 40)
		for i := range 40 {
			source := w.source
			if i%2 == 1 {
				source = other
			}
			all.Go(func() {
				begun <- struct{}{}
				header, err := source.Headers(t.Context(), "alice")
				if err != nil {
					return // who has left
				}
				_, _ = source.Refused(t.Context(), "alice", header.Clone(), http.StatusUnauthorized, http.Header{})
				_, _ = source.Headers(t.Context(), "alice")
			})
		}
		for range 20 {
			<-begun
		}
		if _, err := w.flow.Leave(t.Context(), w.source, "alice"); err != nil {
			t.Error(err)
		}
		all.Wait()
		other.ForgetAll() // as the store tells
		w.source.ForgetAll()
		if _, err := w.source.Headers(t.Context(), "alice"); err == nil {
			t.Error("alice is signed in after leaving")
		}
		if _, err := other.Headers(t.Context(), "alice"); err == nil {
			t.Error("alice is signed in at the other process after leaving")
		}
		if _, kept, _ := w.vault.Find(t.Context(), "web", "alice"); kept {
			t.Error("something of alice is kept")
		}
		if _, err := w.source.Headers(t.Context(), "bob"); err != nil {
			t.Errorf("with alice's login bob's has ended: %v", err)
		}
	}
}
