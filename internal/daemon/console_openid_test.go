//go:build !windows

package daemon_test

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
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
		roleless := group == "" || group == "other"
		if page := b.get(t, "/calls").Body.String(); strings.Contains(page, "You have no role that sees more.") != roleless {
			t.Errorf("%q is told of roles wrongly: %s", group, page)
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
	o.first.OpenID.Claims = func(c map[string]any) { c["exp"] = time.Now().Add(2 * time.Second).Unix() }
	b := o.leave(t, o.first, "/")
	if b.cookie = sessionOf(b.comeBack(t, b.back)); b.cookie == "" {
		t.Fatal("no session")
	}
	testwait.Until(t, patience, "the session ends with the token", func() bool {
		return b.get(t, "/calls?tool=x").Header().Get("Location") == "/sign-in?to=%2Fcalls%3Ftool%3Dx"
	})
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
	answers := func(code string, status int) func(*testing.T, *away) {
		return func(*testing.T, *away) {
			o.first.AnswerTokens(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"error":%q,"error_description":"canary"}`, code)
				return true
			})
		}
	}
	const (
		notBegun = "This sign-in was not begun in this browser. Begin again."
		over     = "This sign-in is over, or was not begun in this browser. Begin again."
		foreign  = "The answer is not of the sign-in that this browser has begun."
		code     = "The code of the issuer was over, or used before."
		client   = "The issuer does not take this gateway as a client."
		clocks   = "The ID token is over, or not good yet."
	)
	for name, attack := range map[string]struct {
		do   func(*testing.T, *away)
		says string
	}{
		"a link of somebody else's sign-in":     {func(_ *testing.T, b *away) { b.login = "" }, notBegun},
		"a link in a browser with its own":      {func(t *testing.T, b *away) { b.login = o.leave(t, o.first, "/").login }, foreign},
		"a code of somebody else":               {func(t *testing.T, b *away) { stolen(t, o.leave(t, o.first, "/"), b) }, code},
		"a code of another issuer":              {func(t *testing.T, b *away) { stolen(t, o.leave(t, o.second, "/"), b) }, code},
		"a state that nobody has":               {query(func(q url.Values) { q.Set("state", "x") }), notBegun},
		"no state":                              {query(func(q url.Values) { q.Del("state") }), notBegun},
		"two states":                            {query(func(q url.Values) { q.Add("state", q.Get("state")) }), foreign},
		"an answer of another issuer":           {query(func(q url.Values) { q.Set("iss", o.second.Issuer) }), foreign},
		"an answer that does not name its own":  {query(func(q url.Values) { q.Del("iss") }), foreign},
		"two issuers":                           {query(func(q url.Values) { q.Add("iss", o.second.Issuer) }), foreign},
		"an error":                              {query(func(q url.Values) { q.Set("error", "access_denied") }), "The issuer did not let you in, or you have cancelled."},
		"an error that is a script":             {query(func(q url.Values) { q.Set("error", "<script>canary") }), "The issuer did not sign you in."},
		"an issuer that is out of order":        {query(func(q url.Values) { q.Set("error", "server_error") }), "The issuer does not answer, or has a problem of its own."},
		"no code":                               {query(func(q url.Values) { q.Del("code") }), "The issuer did not sign you in."},
		"a cookie that nobody sealed":           {func(_ *testing.T, b *away) { b.login = strings.Repeat("A", 200) }, over},
		"a changed cookie":                      {func(_ *testing.T, b *away) { b.login = "A" + b.login[1:] }, over},
		"an ID token with another nonce":        {claims("nonce", "canary"), "The ID token belongs to another sign-in."},
		"an ID token without a nonce":           {claims("nonce", nil), "The ID token belongs to another sign-in."},
		"an ID token for somebody else":         {claims("aud", "canary"), "The ID token was made for another client."},
		"an ID token of another issuer":         {claims("iss", o.second.Issuer), "The ID token cannot be verified."},
		"an ID token that is over":              {claims("exp", time.Now().Add(-time.Hour).Unix()), clocks},
		"an ID token over within the leeway":    {claims("exp", time.Now().Add(-10*time.Second).Unix()), clocks},
		"an ID token of tomorrow":               {claims("iat", time.Now().Add(time.Hour).Unix()), clocks},
		"an ID token of another access token":   {claims("at_hash", "canary"), "The ID token cannot be verified."},
		"an ID token that another one asked of": {claims("azp", "canary"), "The ID token was made for another client."},
		"an ID token of nobody":                 {claims("sub", ""), "The ID token does not say who you are"},
		"no ID token":                           {func(*testing.T, *away) { o.first.OpenID.None = true }, "The issuer gave no ID token."},
		"an unknown client":                     {answers("invalid_client", http.StatusUnauthorized), client},
		"a scope that nobody has":               {answers("invalid_scope", http.StatusBadRequest), client},
		"a token endpoint that is broken":       {answers("canary", http.StatusInternalServerError), "The issuer does not answer, or has a problem of its own."},
		"a token endpoint that hangs up": {func(*testing.T, *away) {
			o.first.AnswerTokens(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
		}, "The issuer does not answer, or has a problem of its own."},
	} {
		o.first.OpenID.Claims, o.first.OpenID.None = nil, false
		o.first.AnswerTokens(nil)
		o.pages = o.r.Console(t.Context(), consoleURL, true) // with all token requests before it
		b := o.leave(t, o.first, "/")
		attack.do(t, b)
		w := b.comeBack(t, b.back)
		want := http.StatusForbidden
		if strings.HasPrefix(attack.says, "The issuer does not") {
			want = http.StatusBadGateway
		}
		if page := html.UnescapeString(w.Body.String()); w.Code != want || sessionOf(w) != "" || !strings.Contains(page, attack.says) || strings.Contains(page, "canary") {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Result().Cookies(), page)
		}
	}
}

// Strangers cannot have the gateway ask an issuer as often as they like.
func TestConsoleOpenIDFlood(t *testing.T) {
	t.Parallel()
	o := withOpenID(t)
	o.first.OpenID.None = true
	refused := 0
	for range 15 {
		b := o.leave(t, o.first, "/")
		w := b.comeBack(t, b.back)
		if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "" && sessionOf(w) == "" {
			refused++
		}
	}
	if asked := len(o.first.Requests("/token")); asked > 12 || refused < 3 {
		t.Errorf("%d token requests, %d refused", asked, refused)
	}
}

// An issuer that says nothing of PKCE, such as Entra ID, is sent S256. The nonce of the ID
// token makes a code of somebody else worthless even if it does not look at it.
func TestConsoleOpenIDWithoutWordOfPKCE(t *testing.T) {
	t.Parallel()
	o := withOpenID(t)
	o.first.ChangeMetadata(func(m map[string]any) { delete(m, "code_challenge_methods_supported") })
	b := o.leave(t, o.first, "/")
	if q := b.at.Query(); q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("nonce") == "" {
		t.Errorf("asked with %v", q)
	}
	if w := b.comeBack(t, b.back); sessionOf(w) == "" {
		t.Errorf("not signed in: %d %s", w.Code, w.Body)
	}
	if asked := o.first.Requests("/token"); len(asked) != 1 || asked[0].Form.Get("code_verifier") == "" {
		t.Errorf("token requests %+v", asked)
	}
}

// Nothing of signing in is answered inside a page of another site, and nothing happens there.
func TestConsoleOpenIDFramed(t *testing.T) {
	t.Parallel()
	o := withOpenID(t)
	b := o.leave(t, o.first, "/")
	for _, path := range []string{"/sign-in", "/sign-in/with?issuer=" + url.QueryEscape(o.first.Issuer), b.back, "/sign-in/callback", "/open/x", "/assets/console.css", "/calls", "/now/events"} {
		for _, dest := range []string{"iframe", "frame", "fencedframe", "embed", "object", ""} {
			for _, site := range []string{"cross-site", "same-site", "same-origin"} {
				w := b.do(t, http.MethodGet, path, nil, func(r *http.Request) {
					r.Header.Set("Sec-Fetch-Site", site)
					if dest != "" {
						r.Header.Set("Sec-Fetch-Dest", dest)
						r.AddCookie(&http.Cookie{Name: b.name, Value: b.login})
					}
				})
				h := w.Header()
				if !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("X-Frame-Options") != "DENY" {
					t.Errorf("%s to %q of %s may be framed: %v", path, dest, site, h)
				}
				if dest != "" && (w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0) {
					t.Errorf("%s in %s of %s: %d %v", path, dest, site, w.Code, w.Result().Cookies())
				}
			}
		}
	}
	if asked := o.first.Requests("/token"); len(asked) != 0 {
		t.Errorf("%d token requests", len(asked))
	}
	if w := b.comeBack(t, b.back); sessionOf(w) == "" {
		t.Errorf("the sign-in itself is used up: %d", w.Code)
	}
}

// Each failure on the way to an issuer says what to do about it.
func TestConsoleOpenIDAway(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*openIDs){
		"What the issuer says of itself cannot be used.": func(o *openIDs) {
			o.first.ChangeMetadata(func(m map[string]any) { m["issuer"] = "https://canary.example" })
		},
		"it does not support PKCE with S256": func(o *openIDs) {
			o.first.ChangeMetadata(func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} })
		},
		"This issuer does not name itself": func(o *openIDs) {
			o.first.ChangeMetadata(func(m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") })
		},
		"The issuer does not answer": func(o *openIDs) { o.first.Close() },
	} {
		o := withOpenID(t)
		change(o)
		w := (&browser{l: o.looked}).get(t, "/sign-in/with?issuer="+url.QueryEscape(o.first.Issuer))
		if page := html.UnescapeString(w.Body.String()); w.Code != http.StatusBadGateway || !strings.Contains(page, says) || strings.Contains(page, "canary") {
			t.Errorf("%s: %d %s", says, w.Code, page)
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

// An issuer whose metadata is of another one, or names other kinds of PKCE, is not used.
func TestConsoleOpenIDDiscovery(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"metadata of another issuer":  func(m map[string]any) { m["issuer"] = "https://evil.example" },
		"PKCE without a hash":         func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} },
		"a script for a sign-in page": func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" },
		"a sign-in page in the clear": func(m map[string]any) { m["authorization_endpoint"] = "http://issuer.example/authorize" },
	} {
		o := withOpenID(t)
		o.first.ChangeMetadata(change)
		w := (&browser{l: o.looked}).get(t, "/sign-in/with?issuer="+url.QueryEscape(o.first.Issuer))
		if w.Code != http.StatusBadGateway || len(w.Result().Cookies()) != 0 {
			t.Errorf("%s: %d %s", name, w.Code, w.Header())
		}
	}
}
