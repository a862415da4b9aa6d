//go:build !windows

package daemon_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

const loginCookie = "toolgate-console-login-" // and a part of the hash of its state

// openIDs is a gateway with a console at which people of two issuers sign in.
type openIDs struct {
	*looked
	first, second *oauthtest.Authority
}

func withOpenID(t *testing.T) *openIDs {
	t.Helper()
	o := &openIDs{first: oauthtest.NewOpenID(t), second: oauthtest.NewOpenID(t)}
	issuer := func(a *oauthtest.Authority) map[string]any {
		return map[string]any{
			"issuer": a.Issuer, "audience": "https://gateway.example/mcp", "claims": map[string]any{"groups": "groups"},
			"console": map[string]any{"client_id": "console", "scopes": []any{"groups"}},
		}
	}
	group := func(name string) []any { return []any{map[string]any{"group": name, "issuer": o.first.Issuer}} }
	section := withKeys("root")["auth"].(map[string]any)
	maps.Copy(section, map[string]any{
		"jwt": []any{issuer(o.first), issuer(o.second)}, "admins": group("ops"), "auditors": group("audit"), "viewers": group("look"),
	})
	o.looked = lookedAt(t, servers{"a": fake("one")}, map[string]any{"auth": section})
	return o
}

// away is a browser that was sent to an issuer.
type away struct {
	*browser
	name  string   // of the cookie of the login
	login string   // its value
	at    *url.URL // where it was sent
	back  string   // path and query that it comes back to
}

// leave begins a login at an issuer, and follows to where the issuer sends it back.
func (o *openIDs) leave(t *testing.T, a *oauthtest.Authority, to string) *away {
	t.Helper()
	return o.leaveWith(t, a, to, "")
}

// leaveWith is leave for a browser that has a session.
func (o *openIDs) leaveWith(t *testing.T, a *oauthtest.Authority, to, session string) *away {
	t.Helper()
	b := &away{browser: &browser{l: o.looked, cookie: session}}
	w := b.get(t, "/sign-in/with?"+url.Values{"issuer": {a.Issuer}, "to": {to}}.Encode())
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		t.Fatalf("leave: %d %s", w.Code, w.Body)
	}
	c := w.Result().Cookies()[0]
	if !strings.HasPrefix(c.Name, loginCookie) || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 600 {
		t.Errorf("cookie of the login: %+v", c)
	}
	b.name, b.login = c.Name, c.Value
	var err error
	if b.at, err = url.Parse(w.Header().Get("Location")); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.at.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	path, ours := strings.CutPrefix(resp.Header.Get("Location"), consoleURL)
	if !ours {
		t.Fatalf("the issuer sends the browser to %s", resp.Header.Get("Location"))
	}
	b.back = path
	return b
}

// comeBack opens a path as a browser that comes from another site: it sends no strict cookie.
func (b *away) comeBack(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	lax := *b.browser
	lax.cookie = ""
	return lax.do(t, http.MethodGet, path, nil, func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if b.login != "" {
			r.AddCookie(&http.Cookie{Name: b.name, Value: b.login})
		}
	})
}

// sessionOf returns the session that an answer gives to a browser; empty for none.
func sessionOf(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		if c.Name == "toolgate-console" && c.MaxAge > 0 {
			return c.Value
		}
	}
	return ""
}

// Somebody signs in at an issuer, comes back to where they were, and has the role of
// their groups.
func TestConsoleOpenID(t *testing.T) {
	t.Parallel()
	o := withOpenID(t)
	if page := (&browser{l: o.looked}).get(t, "/sign-in?to=/calls").Body.String(); !strings.Contains(page, "Sign in at "+o.first.Issuer) || !strings.Contains(page, "Sign in at "+o.second.Issuer) {
		t.Errorf("the page has no issuers: %s", page)
	}
	for group, paths := range map[string]map[string]int{
		"":      {"/calls": 200, "/now": 404, "/access": 404},
		"other": {"/calls": 200, "/now": 404},
		"look":  {"/calls": 200, "/now": 200, "/access": 404},
		"audit": {"/now": 200, "/access": 200},
		"ops":   {"/now": 200, "/access": 200},
	} {
		o.first.OpenID.Groups = []string{group}
		if group == "" {
			o.first.OpenID.Groups = nil
		}
		b := o.leave(t, o.first, "/calls?tool=x")
		q := b.at.Query()
		if q.Get("redirect_uri") != consoleURL+"/sign-in/callback" || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" || q.Get("scope") != "openid groups" || q.Has("resource") {
			t.Errorf("asked with %v", q)
		}
		w := b.comeBack(t, b.back)
		if w.Code != http.StatusOK || w.Header().Get("Refresh") != "0; url=/calls?tool=x" {
			t.Fatalf("%q comes back: %d %v %s", group, w.Code, w.Header(), w.Body)
		}
		for _, c := range w.Result().Cookies() {
			if c.Name == "toolgate-console" && (!c.HttpOnly || c.SameSite != http.SameSiteStrictMode) || strings.HasPrefix(c.Name, loginCookie) && c.MaxAge >= 0 {
				t.Errorf("cookie %+v", c)
			}
		}
		if b.cookie = sessionOf(w); b.cookie == "" {
			t.Fatalf("%q has no session", group)
		}
		for path, want := range paths {
			if w := b.get(t, path); w.Code != want {
				t.Errorf("%q at %s: %d", group, path, w.Code)
			}
		}
		if w := b.post(t, "/mode", url.Values{"mode": {"NORMAL"}, "reason": {"x"}}); (w.Code == http.StatusSeeOther) != (group == "ops") {
			t.Errorf("%q decides: %d", group, w.Code)
		}
	}
	// A group counts for the issuer that the settings name with it alone.
	o.second.OpenID.Groups = []string{"ops"}
	foreign := o.leave(t, o.second, "/")
	foreign.cookie = sessionOf(foreign.comeBack(t, foreign.back))
	if calls, now := foreign.get(t, "/calls"), foreign.get(t, "/now"); calls.Code != http.StatusOK || now.Code != http.StatusNotFound {
		t.Errorf("a group of another issuer: %d %d", calls.Code, now.Code)
	}
	// Without a path, and for one that is no path of the console, it leads to the first page.
	for _, to := range []string{"", "https://evil.example/", "//evil.example/", `/\evil.example`, "/" + strings.Repeat("x", 4096)} {
		b := o.leave(t, o.second, to)
		if w := b.comeBack(t, b.back); w.Header().Get("Refresh") != "0; url=/" {
			t.Errorf("to %.40q: %d %q", to, w.Code, w.Header().Get("Refresh"))
		}
	}
}

// A session ends with the ID token, and leads back after signing in again.
func TestConsoleOpenIDEnds(t *testing.T) {
	t.Parallel()
	o := withOpenID(t)
	o.first.OpenID.Claims = func(c map[string]any) { c["exp"] = time.Now().Add(-10 * time.Second).Unix() } // within the leeway
	b := o.leave(t, o.first, "/")
	if b.cookie = sessionOf(b.comeBack(t, b.back)); b.cookie == "" {
		t.Fatal("no session")
	}
	if w := b.get(t, "/calls?tool=x"); w.Header().Get("Location") != "/sign-in?to=%2Fcalls%3Ftool%3Dx" {
		t.Errorf("after the end of the token: %d %s", w.Code, w.Header())
	}
	o.first.OpenID.Claims = nil
	b = o.leave(t, o.first, "/")
	old := b.comeBack(t, b.back)
	if b.cookie = sessionOf(old); b.get(t, "/calls").Code != http.StatusOK {
		t.Fatal("no session")
	}
	b.post(t, "/sign-out", url.Values{})
	if w := b.get(t, "/calls"); w.Code != http.StatusSeeOther {
		t.Errorf("after signing out: %d", w.Code)
	}
}

// Whatever somebody else puts into the way back, nobody is signed in by it.
func TestConsoleOpenIDAttacks(t *testing.T) {
	t.Parallel()
	o := withOpenID(t)
	// query changes the way back of a browser.
	query := func(change func(url.Values)) func(*testing.T, *away) {
		return func(_ *testing.T, b *away) {
			u, err := url.Parse(b.back)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			change(q)
			b.back = u.Path + "?" + q.Encode()
		}
	}
	claims := func(name string, value any) func(*testing.T, *away) {
		return func(*testing.T, *away) { o.first.OpenID.Claims = func(c map[string]any) { c[name] = value } }
	}
	for name, attack := range map[string]func(*testing.T, *away){
		"a link of somebody else's sign-in":     func(_ *testing.T, b *away) { b.login = "" },
		"a link in a browser with its own":      func(t *testing.T, b *away) { b.login = o.leave(t, o.first, "/").login },
		"a code of somebody else":               func(t *testing.T, b *away) { stolen(t, o.leave(t, o.first, "/"), b) },
		"a code of another issuer":              func(t *testing.T, b *away) { stolen(t, o.leave(t, o.second, "/"), b) },
		"a state that nobody has":               query(func(q url.Values) { q.Set("state", "x") }),
		"no state":                              query(func(q url.Values) { q.Del("state") }),
		"two states":                            query(func(q url.Values) { q.Add("state", q.Get("state")) }),
		"an answer of another issuer":           query(func(q url.Values) { q.Set("iss", o.second.Issuer) }),
		"an answer that does not name its own":  query(func(q url.Values) { q.Del("iss") }),
		"two issuers":                           query(func(q url.Values) { q.Add("iss", o.second.Issuer) }),
		"an error":                              query(func(q url.Values) { q.Set("error", "access_denied") }),
		"no code":                               query(func(q url.Values) { q.Del("code") }),
		"a cookie that nobody sealed":           func(_ *testing.T, b *away) { b.login = strings.Repeat("A", 200) },
		"a changed cookie":                      func(_ *testing.T, b *away) { b.login = "A" + b.login[1:] },
		"an ID token with another nonce":        claims("nonce", "x"),
		"an ID token without a nonce":           claims("nonce", nil),
		"an ID token for somebody else":         claims("aud", "other"),
		"an ID token of another issuer":         claims("iss", o.second.Issuer),
		"an ID token that is over":              claims("exp", time.Now().Add(-time.Hour).Unix()),
		"an ID token of another access token":   claims("at_hash", "x"),
		"an ID token that another one asked of": claims("azp", "other"),
		"no ID token":                           func(*testing.T, *away) { o.first.OpenID.None = true },
	} {
		o.first.OpenID.Claims, o.first.OpenID.None = nil, false
		b := o.leave(t, o.first, "/")
		attack(t, b)
		if w := b.comeBack(t, b.back); w.Code != http.StatusForbidden || sessionOf(w) != "" {
			t.Errorf("%s: %d %v", name, w.Code, w.Result().Cookies())
		}
	}
}

// stolen puts the code that one browser was sent back with into the way back of another.
func stolen(t *testing.T, from, to *away) {
	t.Helper()
	f, err := url.Parse(from.back)
	if err != nil {
		t.Fatal(err)
	}
	own, err := url.Parse(to.back)
	if err != nil {
		t.Fatal(err)
	}
	q := own.Query()
	q.Set("code", f.Query().Get("code"))
	to.back = own.Path + "?" + q.Encode()
}

// An answer counts once, at the address that the login was begun at. A session that
// somebody has fixed is not used. Another site begins no login.
func TestConsoleOpenIDOnce(t *testing.T) {
	t.Parallel()
	o := withOpenID(t)
	victim := o.as(t, "root")
	b, other := o.leaveWith(t, o.first, "/", victim.cookie), o.leave(t, o.first, "/")
	if w := b.comeBack(t, "/sign-in/callback?x=1"); w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
		t.Errorf("another site ends a login: %d %s", w.Code, w.Header())
	}
	w := b.comeBack(t, b.back)
	if got := sessionOf(w); got == "" || got == b.cookie {
		t.Fatalf("the session is not a new one: %d %s", w.Code, w.Body)
	}
	if w := victim.get(t, "/now"); w.Code != http.StatusSeeOther {
		t.Errorf("the session before goes on: %d", w.Code)
	}
	if w := b.comeBack(t, b.back); w.Code != http.StatusForbidden || sessionOf(w) != "" {
		t.Errorf("an answer counts twice: %d", w.Code)
	}
	if w := other.comeBack(t, other.back); sessionOf(w) == "" {
		t.Errorf("a login in another tab: %d", w.Code)
	}
	b = o.leave(t, o.first, "/")
	elsewhere := b.do(t, http.MethodGet, b.back, nil, func(r *http.Request) {
		r.Host = "localhost:7778"
		r.AddCookie(&http.Cookie{Name: b.name, Value: b.login})
	})
	if elsewhere.Code != http.StatusForbidden || sessionOf(elsewhere) != "" {
		t.Errorf("an answer counts at another address: %d", elsewhere.Code)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		begun := b.do(t, http.MethodGet, "/sign-in/with?issuer="+url.QueryEscape(o.first.Issuer), nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) })
		if begun.Header().Get("Location") != "/sign-in?to=%2F" || len(begun.Result().Cookies()) != 0 {
			t.Errorf("another site begins a login: %d %s", begun.Code, begun.Header())
		}
	}
	if w := b.get(t, "/sign-in/with?issuer=https%3A%2F%2Fevil.example"); w.Code != http.StatusNotFound || len(w.Result().Cookies()) != 0 {
		t.Errorf("an issuer that the settings do not have: %d", w.Code)
	}
}

// An issuer whose metadata is of another one, or does without PKCE, is not used.
func TestConsoleOpenIDDiscovery(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"metadata of another issuer":  func(m map[string]any) { m["issuer"] = "https://evil.example" },
		"no PKCE":                     func(m map[string]any) { delete(m, "code_challenge_methods_supported") },
		"PKCE without a hash":         func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} },
		"a script for a sign-in page": func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" },
		"a sign-in page in the clear": func(m map[string]any) { m["authorization_endpoint"] = "http://issuer.example/authorize" },
	} {
		o := withOpenID(t)
		o.first.Metadata = change
		w := (&browser{l: o.looked}).get(t, "/sign-in/with?issuer="+url.QueryEscape(o.first.Issuer))
		if w.Code != http.StatusBadGateway || len(w.Result().Cookies()) != 0 {
			t.Errorf("%s: %d %s", name, w.Code, w.Header())
		}
	}
}
