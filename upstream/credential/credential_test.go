package credential_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// safe is a vault in memory. A failure of it can be arranged.
type safe struct {
	mu      sync.Mutex
	rows    map[string]credential.Sealed
	leases  map[string]string
	logins  map[string][]byte
	clients map[string][]byte
	broken  error // of everything that writes a credential
	renewed int
	between func(what string) // is called between what is done with a credential and its answer
}

// pause calls between, which may come back here.
func (v *safe) pause(what string) {
	v.mu.Lock()
	between := v.between
	v.mu.Unlock()
	if between != nil {
		between(what)
	}
}

func newSafe() *safe {
	return &safe{rows: map[string]credential.Sealed{}, leases: map[string]string{}, logins: map[string][]byte{}, clients: map[string][]byte{}}
}

func (v *safe) Find(_ context.Context, server, principal string) (credential.Sealed, bool, error) {
	defer v.pause("find")
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.rows[server+"\x00"+principal]
	return s, ok, nil
}

func (v *safe) Put(_ context.Context, k credential.Key, body []byte) (int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.broken != nil {
		return 0, v.broken
	}
	s := credential.Sealed{Key: k, Version: v.rows[k.Server+"\x00"+k.Principal].Version + 1, Body: body}
	v.rows[k.Server+"\x00"+k.Principal] = s
	return s.Version, nil
}

func (v *safe) Lease(_ context.Context, k credential.Key, version int64, holder string, _ time.Time) (bool, error) {
	defer v.pause("lease")
	v.mu.Lock()
	defer v.mu.Unlock()
	id := k.Server + "\x00" + k.Principal
	if v.rows[id].Version != version || v.leases[id] != "" && v.leases[id] != holder {
		return false, nil
	}
	v.leases[id] = holder
	return true, nil
}

func (v *safe) Release(_ context.Context, k credential.Key, _ string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.leases, k.Server+"\x00"+k.Principal)
	return nil
}

func (v *safe) Renew(_ context.Context, k credential.Key, version int64, body []byte) (int64, bool, error) {
	defer v.pause("renew")
	v.mu.Lock()
	defer v.mu.Unlock()
	id := k.Server + "\x00" + k.Principal
	if v.broken != nil {
		return 0, false, v.broken
	}
	if v.rows[id].Version != version {
		return 0, false, nil
	}
	v.renewed++
	v.rows[id] = credential.Sealed{Key: k, Version: version + 1, Body: body}
	delete(v.leases, id)
	return version + 1, true, nil
}

func (v *safe) Delete(_ context.Context, server, principal string) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.rows[server+"\x00"+principal]
	delete(v.rows, server+"\x00"+principal)
	return ok, nil
}

func (v *safe) KeepLogin(_ context.Context, state string, body []byte, _ time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.logins[state] = body
	return nil
}

func (v *safe) TakeLogin(_ context.Context, state string) ([]byte, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	body, ok := v.logins[state]
	delete(v.logins, state)
	return body, ok, nil
}

func (v *safe) Client(_ context.Context, issuer, redirect string) ([]byte, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	body, ok := v.clients[issuer+" "+redirect]
	return body, ok, nil
}

func (v *safe) KeepClient(_ context.Context, issuer, redirect string, body []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clients[issuer+" "+redirect] = body
	return nil
}

// world is a source with a flow before a server with its authority.
type world struct {
	a      *oauthtest.Authority
	s      *oauthtest.Server
	vault  *safe
	source *credential.Source
	flow   *credential.Flow
	most   int // principals that are remembered
}

const redirect = "http://127.0.0.1:1/oauth/callback"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{a: oauthtest.New(t), vault: newSafe()}
	w.s = oauthtest.NewServer(t, w.a)
	w.source, w.flow = w.another()
	return w
}

// another is what a second process has.
func (w *world) another() (*credential.Source, *credential.Flow) {
	o := credential.Options{Vault: w.vault, Logger: slog.New(slog.DiscardHandler), Changed: func(string, string) {}, Principals: w.most}
	client := &oauth.Client{HTTP: http.DefaultTransport, Loopback: true}
	set := credential.Settings{Server: "web", URL: w.s.URL, Mode: credential.OAuth}
	return credential.New(set, client, o), &credential.Flow{Options: o, Name: "toolgate"}
}

// answer goes to the authority and returns what a browser is sent back with.
func (w *world) answer(t *testing.T, principal string) url.Values {
	t.Helper()
	to, _, err := w.flow.Begin(t.Context(), w.source, principal, credential.Way{Redirect: redirect, Browser: "own"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || back.Query().Get("state") == "" {
		t.Fatalf("sent back to %q", resp.Header.Get("Location"))
	}
	return back.Query()
}

func (w *world) finish(t *testing.T, q url.Values, browser string) error {
	t.Helper()
	_, err := w.flow.Finish(t.Context(), q, browser, func(string) *credential.Source { return w.source })
	return err
}

func (w *world) login(t *testing.T, principal string) {
	t.Helper()
	if err := w.finish(t, w.answer(t, principal), "own"); err != nil {
		t.Fatal(err)
	}
}

// TestAnswersAreChecked has answers come back that are not what was gone for: none
// of them gets a code to a token endpoint.
func TestAnswersAreChecked(t *testing.T) {
	for name, change := range map[string]func(w *world, q url.Values) (browser string){
		"other issuer":         func(_ *world, q url.Values) string { q.Set("iss", "https://evil.example"); return "own" },
		"issuer normalised":    func(w *world, q url.Values) string { q.Set("iss", w.a.Issuer+"/"); return "own" },
		"no issuer":            func(_ *world, q url.Values) string { q.Del("iss"); return "own" },
		"issuer twice":         func(_ *world, q url.Values) string { q.Add("iss", q.Get("iss")); return "own" },
		"no state":             func(_ *world, q url.Values) string { q.Del("state"); return "own" },
		"other state":          func(_ *world, q url.Values) string { q.Set("state", "x"); return "own" },
		"no code":              func(_ *world, q url.Values) string { q.Del("code"); return "own" },
		"another browser":      func(*world, url.Values) string { return "other" },
		"no browser":           func(*world, url.Values) string { return "" },
		"error":                func(_ *world, q url.Values) string { q.Del("code"); q.Set("error", "access_denied"); return "own" },
		"error, other issuer":  func(_ *world, q url.Values) string { q.Set("iss", "x"); q.Set("error", "canary"); return "own" },
		"code and error both":  func(_ *world, q url.Values) string { q.Set("error", "access_denied"); return "own" },
		"error with bad words": func(_ *world, q url.Values) string { q.Set("error", "<script>canary"); return "own" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			q := w.answer(t, "alice")
			browser := change(w, q)
			err := w.finish(t, q, browser)
			if err == nil || strings.Contains(err.Error(), "canary") || len(w.a.Requests("/token")) != 0 {
				t.Errorf("%v; %d codes were sent", err, len(w.a.Requests("/token")))
			}
			if _, err := w.source.Headers(t.Context(), "alice"); err == nil {
				t.Error("somebody is signed in")
			}
		})
	}
	t.Run("replay", func(t *testing.T) {
		w := newWorld(t)
		q := w.answer(t, "alice")
		if err := w.finish(t, q, "own"); err != nil {
			t.Fatal(err)
		}
		if err := w.finish(t, q, "own"); !errors.Is(err, credential.ErrNoLogin) || len(w.a.Requests("/token")) != 1 {
			t.Errorf("the second time: %v", err)
		}
	})
}

// TestMixUp has an attacker's authorization server answer for an honest one, and take
// a code to it: its token endpoint sees nothing.
func TestMixUp(t *testing.T) {
	w, evil := newWorld(t), oauthtest.New(t)
	q := w.answer(t, "alice")
	q.Set("iss", evil.Issuer)
	if err := w.finish(t, q, "own"); err == nil || len(evil.Requests("/token")) != 0 {
		t.Errorf("%v; the other one saw %d requests", err, len(evil.Requests("/token")))
	}
	w.login(t, "alice")
	// The server names another authority from now on: neither token, refresh token
	// nor client of the honest one gets there.
	w.s.Authorities = []*oauthtest.Authority{evil}
	header, err := w.source.Headers(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.source.Refused(t.Context(), "alice", header.Clone(), http.StatusUnauthorized, http.Header{"Www-Authenticate": {`Bearer x="y"`}})
	if again || err == nil || len(evil.Requests("/token")) != 0 {
		t.Errorf("after the swap: %v, %v; the other one saw %v", again, err, evil.Requests("/token"))
	}
	w.login(t, "alice")
	for _, r := range evil.Requests("/authorize") {
		for _, own := range w.a.Requests("/authorize") {
			if r.Form.Get("client_id") == own.Form.Get("client_id") {
				t.Error("a client of one authority is used at another")
			}
		}
	}
}

// TestIssuersAreThemselves has metadata that lies about its issuer, or lacks PKCE, or
// leads to no place for a browser: nobody is sent anywhere.
func TestIssuersAreThemselves(t *testing.T) {
	for name, lie := range map[string]map[string]any{
		"issuer":           {"issuer": "https://honest.example"},
		"no pkce":          {"code_challenge_methods_supported": nil},
		"plain pkce":       {"code_challenge_methods_supported": []string{"plain"}},
		"javascript":       {"authorization_endpoint": "javascript:alert(1)"},
		"file":             {"authorization_endpoint": "file:///etc/passwd"},
		"shell":            {"authorization_endpoint": "http://127.0.0.1/$(id)"},
		"http elsewhere":   {"authorization_endpoint": "http://as.example/authorize"},
		"token elsewhere":  {"token_endpoint": "http://as.example/token"},
		"user information": {"authorization_endpoint": "https://ok@10.0.0.1/"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.a.Metadata = func(m map[string]any) { maps.Copy(m, lie) }
			if to, _, err := w.flow.Begin(t.Context(), w.source, "alice", credential.Way{Redirect: redirect}); err == nil {
				t.Errorf("somebody is sent to %s", to)
			}
		})
	}
	t.Run("resource", func(t *testing.T) {
		w := newWorld(t)
		w.s.Resource = "https://other.example/mcp"
		if _, _, err := w.flow.Begin(t.Context(), w.source, "alice", credential.Way{Redirect: redirect}); err == nil {
			t.Error("metadata of another resource is used")
		}
	})
}

// TestOneRefresh has 50 calls in each of two processes find their token at its end.
func TestOneRefresh(t *testing.T) {
	w := newWorld(t)
	w.a.Rotate = true
	w.login(t, "alice")
	other, _ := w.another()
	old, err := w.source.Headers(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	old = old.Clone()
	if _, err := other.Headers(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	w.a.Revoke(false)
	var all sync.WaitGroup
	for i := range 100 {
		source := []*credential.Source{w.source, other}[i%2]
		all.Go(func() {
			again, err := source.Refused(t.Context(), "alice", old, http.StatusUnauthorized, http.Header{})
			header, headErr := source.Headers(t.Context(), "alice")
			if !again || err != nil || headErr != nil || header.Get("Authorization") == old.Get("Authorization") {
				t.Errorf("%v, %v, %v", again, err, headErr)
			}
		})
	}
	all.Wait()
	if n := len(w.a.Requests("/token")); n != 2 || w.vault.renewed != 1 {
		t.Errorf("%d tokens were asked for and %d renewals kept, want the code's and one more", n, w.vault.renewed)
	}
}

// TestRenewalsAreKeptFirst has the store fail after a refresh: the new token is not
// used until it is kept, and not lost. A process that ends there has somebody sign in.
func TestRenewalsAreKeptFirst(t *testing.T) {
	w := newWorld(t)
	w.a.Rotate = true
	w.login(t, "alice")
	old, err := w.source.Headers(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	old = old.Clone()
	w.a.Revoke(false)
	w.vault.broken = errors.New("the disk is full")
	if again, err := w.source.Refused(t.Context(), "alice", old, http.StatusUnauthorized, http.Header{}); again || err == nil {
		t.Errorf("a token is used that is not kept: %v, %v", again, err)
	}
	w.vault.broken = nil
	header, err := w.source.Headers(t.Context(), "alice")
	if err != nil {
		t.Fatalf("after the store is back: %v", err)
	}
	if _, ok := w.a.Knows(strings.TrimPrefix(header.Get("Authorization"), "Bearer ")); !ok || len(w.a.Requests("/token")) != 2 {
		t.Errorf("the token that was kept late is not used; %d were asked for", len(w.a.Requests("/token")))
	}

	old = header.Clone()
	w.a.Revoke(false)
	w.vault.broken = errors.New("the process ends here")
	ending, _ := w.another()
	_, _ = ending.Headers(t.Context(), "alice")
	_, _ = ending.Refused(t.Context(), "alice", old, http.StatusUnauthorized, http.Header{})
	w.vault.broken = nil
	w.vault.leases = map[string]string{} // whose time is over
	next, _ := w.another()
	_, err = next.Headers(t.Context(), "alice")
	if err == nil {
		_, err = next.Refused(t.Context(), "alice", old, http.StatusUnauthorized, http.Header{})
	}
	if _, needed := errors.AsType[*credential.LoginError](err); !needed {
		t.Errorf("after the end of the process: %v", err)
	}
}

// TestCallersAreKeptApart has one caller's credential asked for another.
func TestCallersAreKeptApart(t *testing.T) {
	w := newWorld(t)
	w.login(t, "alice")
	if _, err := w.source.Headers(t.Context(), "bob"); err == nil {
		t.Error("bob is sent as alice")
	}
	if w.source.Key("alice") == w.source.Key("bob") {
		t.Error("two callers have one key")
	}
	if had, err := w.flow.Leave(t.Context(), w.source, "alice"); !had || err != nil {
		t.Errorf("Leave = %v, %v", had, err)
	}
	if _, err := w.source.Headers(t.Context(), "alice"); err == nil {
		t.Error("alice is signed in after leaving")
	}
	if len(w.a.Requests("/revoke")) != 1 {
		t.Error("the authorization server was not told")
	}
}

// TestReadyHeadersAllocateNothing holds what a call with a valid token costs.
func TestReadyHeadersAllocateNothing(t *testing.T) {
	w := newWorld(t)
	w.login(t, "alice")
	ctx := t.Context()
	if _, err := w.source.Headers(ctx, "alice"); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = w.source.Headers(ctx, "alice") }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkSharedToken is what a call with a token that all share costs more than one
// with headers of the file.
func BenchmarkSharedToken(b *testing.B) {
	a, v := oauthtest.New(b), newSafe()
	o := credential.Options{Vault: v, Logger: slog.New(slog.DiscardHandler), Changed: func(string, string) {}}
	s := credential.New(credential.Settings{
		Server: "web", URL: oauthtest.NewServer(b, a).URL, Mode: credential.ClientCredentials, Shared: true,
		Issuer: a.Issuer, Client: &oauth.Registration{Issuer: a.Issuer, ID: "bench", Secret: "bench"},
	}, &oauth.Client{HTTP: http.DefaultTransport, Loopback: true}, o)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Headers(ctx, "alice"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeaders(b *testing.B) {
	v := newSafe()
	o := credential.Options{Vault: v, Logger: slog.New(slog.DiscardHandler), Changed: func(string, string) {}}
	s := credential.New(credential.Settings{Server: "web", URL: "https://mcp.example/mcp", Mode: credential.APIKey, Header: "Authorization", Prefix: "Bearer "},
		&oauth.Client{HTTP: http.DefaultTransport}, o)
	d := &credential.Flow{Options: o}
	if err := d.Enter(b.Context(), s, "alice", "key"); err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	for b.Loop() {
		if _, err := s.Headers(ctx, "alice"); err != nil {
			b.Fatal(err)
		}
	}
}
