package credential_test

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// newBoundWorld is one whose authorization server binds tokens, and whose server takes
// such.
func newBoundWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.a.Proofs, w.s.Proofs = &oauthtest.Proofs{}, &oauthtest.Proofs{}
	t.Cleanup(func() {
		for _, wrong := range slices.Concat(w.a.Proofs.Wrong(), w.s.Proofs.Wrong()) {
			t.Error(wrong)
		}
	})
	return w
}

// with has the source say something else of keys.
func (w *world) with(change func(*credential.Settings)) *world {
	o := credential.Options{Vault: w.vault, Logger: slog.New(slog.DiscardHandler), Changed: func(string, string) {}}
	set := w.source.Settings()
	set.Issuer = w.a.Issuer
	if change(&set); set.Client != nil {
		set.Client.Issuer = set.Issuer
	}
	w.source = credential.New(set, &oauth.Client{HTTP: http.DefaultTransport, Loopback: true}, o)
	return w
}

func binding(b credential.Binding) func(*credential.Settings) {
	return func(set *credential.Settings) { set.Binding = b }
}

// robot has the gateway itself sign in.
func robot(set *credential.Settings) {
	set.Mode, set.Shared, set.Client = credential.ClientCredentials, true, &oauth.Registration{ID: "robot", Secret: "secret"}
}

// visit makes one request to the server and returns its status. wait, where there is
// one, is called between the making of the request and its proof.
func (w *world) visit(t *testing.T, principal, nonce string, wait func()) (*http.Request, *http.Response) {
	t.Helper()
	header, err := w.source.Headers(t.Context(), principal)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.s.URL+"?query=1#fragment", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	maps.Copy(r.Header, header)
	if wait != nil {
		wait()
	}
	if strings.HasPrefix(r.Header.Get("Authorization"), "DPoP ") {
		if err := w.source.Prove(r, principal, nonce); err != nil {
			t.Error(err)
			return nil, nil
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	resp.Body.Close()
	return r, resp
}

// arrives wants a request of a principal to be let in, and returns the key that it
// proved, empty for none.
func (w *world) arrives(t *testing.T, principal string) string {
	t.Helper()
	r, resp := w.visit(t, principal, "", nil)
	if resp == nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s is answered %v", principal, resp)
	}
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	g, _ := w.a.Knows(token)
	return g.Key
}

// TestBoundLogins has two callers sign in: each has a key of their own, which outlives
// the process and their token.
func TestBoundLogins(t *testing.T) {
	for _, algorithm := range oauth.ProofAlgorithms {
		w := newBoundWorld(t)
		w.a.Algorithms, w.a.Rotate = []string{"RS512", algorithm}, true
		w.login(t, "alice")
		w.login(t, "bob")
		alice, bob := w.arrives(t, "alice"), w.arrives(t, "bob")
		if alice == "" || bob == "" || alice == bob {
			t.Errorf("%s: the keys are %q and %q", algorithm, alice, bob)
		}
		for _, r := range w.a.Requests("/authorize") {
			if key := r.Form.Get("dpop_jkt"); key != alice && key != bob {
				t.Errorf("%s: sent away with the key %q", algorithm, key)
			}
		}
		w.source, _ = w.another() // the process begins anew
		if got := w.arrives(t, "alice"); got != alice {
			t.Errorf("%s: after the restart the key is %q", algorithm, got)
		}
		w.a.Revoke(false)
		for range 2 {
			old, _ := w.visit(t, "alice", "", nil)
			_, _ = w.source.Refused(t.Context(), "alice", old.Header, http.StatusUnauthorized, http.Header{"Www-Authenticate": {`DPoP error="invalid_token"`}})
			if got := w.arrives(t, "alice"); got != alice {
				t.Errorf("%s: the new token is bound to %q", algorithm, got)
			}
			w.source, _ = w.another()
			w.a.Revoke(false)
		}
	}
}

// TestBoundRenewals has two processes renew one token at the same time: one does, by
// the key that both have.
func TestBoundRenewals(t *testing.T) {
	w := newBoundWorld(t)
	w.a.Rotate = true
	w.login(t, "alice")
	other, _ := w.another()
	old, err := w.source.Headers(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	old = old.Clone()
	key := w.arrives(t, "alice")
	w.a.Revoke(false)
	var all sync.WaitGroup
	for i := range 50 {
		source := []*credential.Source{w.source, other}[i%2]
		all.Go(func() {
			if again, err := source.Refused(t.Context(), "alice", old, http.StatusUnauthorized, http.Header{}); !again || err != nil {
				t.Errorf("%v, %v", again, err)
			}
		})
	}
	all.Wait()
	if n := len(w.a.Requests("/token")); n != 2 {
		t.Errorf("%d tokens were asked for, want the code's and one more", n)
	}
	for _, w.source = range []*credential.Source{w.source, other} {
		if got := w.arrives(t, "alice"); got != key {
			t.Errorf("the key is %q, want %q", got, key)
		}
	}
}

// TestBindings has each setting meet each kind of authorization server and server.
func TestBindings(t *testing.T) {
	const bound, bearer, refused = "bound", "bearer", "refused"
	for name, tt := range map[string]struct {
		set     credential.Binding
		can     bool // the authorization server binds tokens
		unbound bool // it says so, and gives bearer tokens all the same
		says    string
		want    string
	}{
		"it can":                    {credential.BindAuto, true, false, "", bound},
		"it can, none set":          {"", true, false, "", bound},
		"it can, and the server":    {"", true, false, `DPoP error="invalid_token"`, bound},
		"both":                      {"", true, false, `Bearer x="y", DPoP algs="ES256"`, bound},
		"the server cannot":         {"", true, false, `Bearer realm="x"`, bearer},
		"it cannot":                 {"", false, false, "", bearer},
		"it does not do it":         {"", true, true, "", bearer},
		"required":                  {credential.BindRequired, true, false, "", bound},
		"required, server cannot":   {credential.BindRequired, true, false, `Bearer realm="x"`, bound},
		"required, nothing said":    {credential.BindRequired, false, false, "", refused},
		"required, it gives bearer": {credential.BindRequired, true, true, "", refused},
		"off":                       {credential.BindOff, true, false, "", bearer},
		"off, the server can":       {credential.BindOff, true, false, `DPoP error="invalid_token"`, bearer},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).with(robot).with(binding(tt.set))
			if tt.can {
				w.a.Proofs, w.a.Unbound = &oauthtest.Proofs{}, tt.unbound
			}
			if tt.says != "" {
				_, _ = w.source.Refused(t.Context(), "", http.Header{}, http.StatusUnauthorized, http.Header{"Www-Authenticate": {tt.says}})
			}
			header, err := w.source.Headers(t.Context(), "")
			got, _, _ := strings.Cut(header.Get("Authorization"), " ")
			switch {
			case err != nil:
				got = refused
			case got == "DPoP":
				got = bound
			case got == "Bearer":
				got = bearer
			}
			if got != tt.want {
				t.Errorf("%s (%v), want %s", got, err, tt.want)
			}
		})
	}
}

// TestAlgorithms has authorization servers that know none of the algorithms: that is
// as if they could not bind, and an error where they have to.
func TestAlgorithms(t *testing.T) {
	for _, list := range [][]string{{"RS256"}, {"none", "HS256"}} {
		w := newWorld(t).with(robot)
		w.a.Proofs, w.a.Algorithms = &oauthtest.Proofs{}, list
		if header, err := w.source.Headers(t.Context(), ""); err != nil || !strings.HasPrefix(header.Get("Authorization"), "Bearer ") {
			t.Errorf("%q: %v", list, err)
		}
		w.vault = newSafe()
		w.with(binding(credential.BindRequired))
		if _, err := w.source.Headers(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "auth.dpop") {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// TestNoDowngrade has an authorization server renew a bound token by one that anybody
// could use: it is not taken, whatever is set.
func TestNoDowngrade(t *testing.T) {
	w := newBoundWorld(t)
	w.login(t, "alice")
	before := w.arrives(t, "alice")
	w.a.Unbound = true
	w.a.Token = func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"access_token":"canary","token_type":"Bearer","expires_in":3600}`))
		return true
	}
	old, _ := w.visit(t, "alice", "", nil)
	again, err := w.source.Refused(t.Context(), "alice", old.Header, http.StatusUnauthorized, http.Header{"Www-Authenticate": {`DPoP error="invalid_token"`}})
	if again || err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v, %v", again, err)
	}
	w.a.Token = nil
	if header, err := w.source.Headers(t.Context(), "alice"); err == nil && !strings.HasPrefix(header.Get("Authorization"), "DPoP ") {
		t.Errorf("%q is sent after a token that was bound to %s", header, before)
	}
}

// TestSettingsAreOfWhatIsKept has the setting change under what is kept: what it does
// not allow is not used.
func TestSettingsAreOfWhatIsKept(t *testing.T) {
	w := newBoundWorld(t)
	w.login(t, "alice")
	if _, err := w.with(binding(credential.BindOff)).source.Headers(t.Context(), "alice"); err == nil {
		t.Error("a bound token is used although none are to be")
	}
	if key := w.with(binding(credential.BindRequired)).arrives(t, "alice"); key == "" {
		t.Error("the bound token is not used")
	}
	w = newWorld(t)
	w.login(t, "alice")
	if _, err := w.with(binding(credential.BindRequired)).source.Headers(t.Context(), "alice"); err == nil {
		t.Error("a bearer token is used although tokens have to be bound")
	}
}

// TestTokenOfAnotherKey has somebody sign in anew between the making of a request and
// its proof: token and proof are of one key.
func TestTokenOfAnotherKey(t *testing.T) {
	w := newBoundWorld(t)
	w.login(t, "alice")
	first := w.arrives(t, "alice")
	if _, resp := w.visit(t, "alice", "", func() { w.login(t, "alice") }); resp == nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the request between is answered %v", resp)
	}
	if second := w.arrives(t, "alice"); second == first {
		t.Error("two logins have one key")
	}
}

// TestRefusedProofs has the server refuse proofs, which is nothing against the token:
// none is asked for.
func TestRefusedProofs(t *testing.T) {
	w := newBoundWorld(t)
	w.login(t, "alice")
	r, _ := w.visit(t, "alice", "", nil)
	for _, code := range []string{"use_dpop_nonce", "invalid_dpop_proof"} {
		again, err := w.source.Refused(t.Context(), "alice", r.Header, http.StatusUnauthorized, http.Header{"Www-Authenticate": {`DPoP error="` + code + `"`}})
		if login, ok := errors.AsType[*credential.LoginError](err); again || !ok || login.NeedsLogin() {
			t.Errorf("%s: %v, %v", code, again, err)
		}
	}
	if n := len(w.a.Requests("/token")); n != 1 {
		t.Errorf("%d tokens were asked for", n)
	}
	w.arrives(t, "alice")
}

// TestNoncesOfTheAuthority has the authorization server want a nonce in each proof, good
// once: a request costs one more where none is known. One that is never content is
// asked twice.
func TestNoncesOfTheAuthority(t *testing.T) {
	w := newBoundWorld(t).with(robot)
	w.a.Proofs = oauthtest.Nonces()
	key := w.arrives(t, "")
	if n := len(w.a.Requests("/token")); n != 2 {
		t.Errorf("%d requests for the first token, want one and its repetition", n)
	}
	for range 3 {
		w.a.Revoke(false)
		old, _ := w.visit(t, "", "", nil)
		if again, err := w.source.Refused(t.Context(), "", old.Header, http.StatusUnauthorized, http.Header{}); !again || err != nil {
			t.Fatalf("%v, %v", again, err)
		}
		if got := w.arrives(t, ""); got != key {
			t.Errorf("the key is %q, want %q", got, key)
		}
		w.with(func(*credential.Settings) {}) // a new process, which has the key and not the nonce
	}
	w = newBoundWorld(t).with(robot)
	w.a.Proofs.Nonce, w.a.Proofs.Next = func(string) bool { return false }, func() string { return "nonce" }
	if _, err := w.source.Headers(t.Context(), ""); err == nil {
		t.Error("there is a token")
	}
	if n := len(w.a.Requests("/token")); n != 2 {
		t.Errorf("%d requests to an authority that is never content, want 2", n)
	}
	w = newBoundWorld(t).with(robot)
	w.a.Proofs.Nonce, w.a.Proofs.Next = func(string) bool { return false }, func() string { return `bad "nonce"` }
	if _, err := w.source.Headers(t.Context(), ""); err == nil || len(w.a.Requests("/token")) != 1 {
		t.Errorf("what is not a nonce: %v; %d requests", err, len(w.a.Requests("/token")))
	}
}

// again has the server answer a request of everyone's, and the gateway do what it can
// about a refusal, until it is let in.
func (w *world) again(t *testing.T) (scheme string) {
	t.Helper()
	for range 3 {
		r, resp := w.visit(t, "", "", nil)
		if resp == nil {
			t.Fatal("there is no answer")
		}
		w.source.Answered(r, "", resp.StatusCode, resp.Header)
		if resp.StatusCode == http.StatusOK {
			scheme, _, _ = strings.Cut(r.Header.Get("Authorization"), " ")
			return scheme
		}
		if _, err := w.source.Refused(t.Context(), "", r.Header, resp.StatusCode, resp.Header); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the server lets nobody in")
	return ""
}

// TestServersAreLearned has servers take the one kind of token or the other, and say so
// when they refuse: the next token is of that kind. One that has taken bound tokens gets
// no others, whatever it says.
func TestServersAreLearned(t *testing.T) {
	w := newWorld(t).with(robot)
	w.a.Proofs = &oauthtest.Proofs{}
	if scheme := w.again(t); scheme != "Bearer" {
		t.Errorf("a server that takes bearer tokens alone is sent %s", scheme)
	}
	if n := len(w.a.Requests("/token")); n != 2 {
		t.Errorf("%d tokens were asked for, want one of each kind", n)
	}

	w = newBoundWorld(t).with(robot)
	w.s.BoundOnly = true
	_, _ = w.source.Refused(t.Context(), "", http.Header{}, http.StatusUnauthorized, http.Header{"Www-Authenticate": {"Bearer"}})
	w.vault.rows = map[string]credential.Sealed{} // so that the next token is not one that was given just now
	w.source.ForgetAll()
	if scheme := w.again(t); scheme != "DPoP" {
		t.Errorf("a server that takes bound tokens is sent %s", scheme)
	}
	if n := len(w.a.Requests("/token")); n != 3 {
		t.Errorf("%d tokens were asked for, want two bearer tokens and a bound one", n)
	}

	w = newBoundWorld(t).with(robot)
	for range 2 {
		if scheme := w.again(t); scheme != "DPoP" {
			t.Errorf("a server that has taken bound tokens is sent %s", scheme)
		}
		w.s.Challenge = func() string { return "Bearer" }
		w.a.Revoke(false)
	}
}

// TestNoDowngradeOfRobots is TestNoDowngrade where nobody signs in: who has had a bound
// token gets no other one of the same authorization server.
func TestNoDowngradeOfRobots(t *testing.T) {
	w := newBoundWorld(t).with(robot)
	w.arrives(t, "")
	w.a.Unbound = true
	w.a.Revoke(false)
	for range 2 {
		old, resp := w.visit(t, "", "", nil)
		again, err := w.source.Refused(t.Context(), "", old.Header, resp.StatusCode, resp.Header)
		if again || err == nil || !strings.Contains(err.Error(), "bound to a key") {
			t.Errorf("%v, %v", again, err)
		}
		w.with(func(*credential.Settings) {}) // as after a restart
	}
}
