package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
)

const (
	// loginTime is how long somebody may be away to sign in at an issuer.
	loginTime = 10 * time.Minute
	// maxUsed bounds the logins that are known to have been used, maxBack the path to
	// come back to, in bytes.
	maxUsed = 4096
	maxBack = 1024
	// maxLogin bounds a login in its cookie: browsers drop cookies of more than 4096 bytes.
	// maxAway is how many of them a browser keeps.
	maxLogin = 3500
	maxAway  = 4
	// withPath leads to an issuer, callbackPath back from there.
	withPath     = "/sign-in/with"
	callbackPath = "/sign-in/callback"
)

// Advised is an error of [OpenID] for whoever reads the page.
type Advised interface {
	error
	// Advice says what to do about it, and repeats nothing of what an issuer or a browser
	// has said.
	Advice() string
	// Elsewhere tells that neither the browser nor its person is at fault.
	Elsewhere() bool
}

// OpenID lets people sign in at issuers of the gateway. Its errors are [Advised].
type OpenID interface {
	// Issuers returns where people can sign in.
	Issuers() []string
	// Begin returns a login, which is secret, and where a browser goes with it. The browser
	// comes back to redirect.
	Begin(ctx context.Context, issuer, redirect string) (login []byte, to string, err error)
	// Finish returns whom a login and the answer of its issuer are of, and until when. It asks
	// allowed before it asks the issuer for a token.
	Finish(ctx context.Context, login []byte, answer url.Values, allowed func() bool) (id *gate.Identity, until time.Time, err error)
}

// away is a login as the browser keeps it while somebody is at an issuer.
type away struct {
	Login []byte    `json:"login"`
	To    string    `json:"to"`
	Ends  time.Time `json:"ends"`
	// Before is the session that the browser has had: it does not send its cookie on the way
	// back.
	Before hash `json:"before"`
}

// logins seal what browsers keep of logins. Nothing is kept of those that nobody comes
// back from. It is safe for concurrent use. Make one with newLogins.
type logins struct {
	aead cipher.AEAD

	mu   sync.Mutex
	used map[hash]time.Time // when they end
}

func newLogins() *logins {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES fits
	}
	return &logins{aead: aead, used: map[hash]time.Time{}}
}

// seal returns a login for the cookie of a browser, good at one redirect URI alone.
func (l *logins) seal(a *away, redirect string) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(l.aead.Seal(nil, nil, text, []byte(redirect))), nil
}

var errNoLogin = errors.New("no login was begun in this browser")

// open returns a login once.
func (l *logins) open(sealed, redirect string) (*away, error) {
	text, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return nil, errNoLogin
	}
	if text, err = l.aead.Open(nil, nil, text, []byte(redirect)); err != nil {
		return nil, errNoLogin
	}
	var a away
	now := time.Now()
	if json.Unmarshal(text, &a) != nil || !now.Before(a.Ends) {
		return nil, errNoLogin
	}
	h := hash(sha256.Sum256(a.Login))
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.used[h]; again {
		return nil, errNoLogin
	}
	first := h
	l.used[h] = a.Ends
	for one, ends := range l.used {
		if !now.Before(ends) {
			delete(l.used, one)
		} else if ends.Before(l.used[first]) {
			first = one
		}
	}
	if len(l.used) > maxUsed { // the issuer takes no code twice either
		delete(l.used, first)
	}
	return &a, nil
}

// redirectURI is where a browser comes back to from an issuer: the console under the name
// that the browser has it by. The Host header was checked to name this console, and the
// issuer knows each of these addresses.
func (c *Console) redirectURI(r *http.Request) string {
	scheme := "http://"
	if c.o.Secure {
		scheme = "https://"
	}
	return scheme + r.Host + callbackPath
}

// loginCookie is the name of the cookie with the login of a state, so that somebody may sign in
// in two tabs. Its mode is Lax, because the browser comes back from another site. It opens
// nothing by itself.
func (c *Console) loginCookie(state string) string {
	sum := sha256.Sum256([]byte(state))
	return c.loginCookies() + hex.EncodeToString(sum[:8])
}

// loginCookies begins the names of these cookies.
func (c *Console) loginCookies() string { return c.cookieName() + "-login-" }

func (c *Console) setLogin(w http.ResponseWriter, name, sealed string) {
	age := int(loginTime.Seconds())
	if sealed == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{Name: name, Value: sealed, Path: "/", MaxAge: age, HttpOnly: true, Secure: c.o.Secure, SameSite: http.SameSiteLaxMode})
}

// forgetLogins has a browser drop logins beyond those that it may keep.
func (c *Console) forgetLogins(w http.ResponseWriter, r *http.Request) {
	kept := 0
	for _, cookie := range r.Cookies() {
		if !strings.HasPrefix(cookie.Name, c.loginCookies()) {
			continue
		}
		if kept++; kept >= maxAway {
			c.setLogin(w, cookie.Name, "")
		}
	}
}

// signInWith leads a browser to an issuer. Only a page of the console or a person begins a
// login.
func (c *Console) signInWith(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	issuer, to := query.Get("issuer"), backTo(query.Get("to"))
	if len(to) > maxBack {
		to = "/"
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		http.Redirect(w, r, signInPath(to), http.StatusSeeOther)
		return
	}
	if !slices.Contains(c.o.OpenID.Issuers(), issuer) {
		c.showSignIn(w, r, http.StatusNotFound, to, "Nobody signs in there.")
		return
	}
	redirect := c.redirectURI(r)
	login, at, err := c.o.OpenID.Begin(r.Context(), issuer, redirect)
	if err != nil {
		c.o.Log.Warn("nobody can be sent to an issuer to sign in to the console", "issuer", issuer, "err", err)
		_, text := advised(err)
		c.showSignIn(w, r, http.StatusBadGateway, to, text)
		return
	}
	a := &away{Login: login, To: to, Ends: time.Now().Add(loginTime), Before: sha256.Sum256([]byte(c.cookie(r)))}
	sealed, err := c.logins.seal(a, redirect)
	if err == nil && len(sealed) > maxLogin {
		a.To = "/"
		sealed, err = c.logins.seal(a, redirect)
	}
	there, wrong := url.Parse(at)
	if err != nil || wrong != nil {
		c.showSignIn(w, r, http.StatusInternalServerError, to, "Nobody can sign in there at the moment.")
		return
	}
	c.forgetLogins(w, r)
	c.setLogin(w, c.loginCookie(there.Query().Get("state")), sealed)
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// signInBack signs a browser in that comes back from an issuer. Its session is a new one.
// A redirect from here would still count as one of the issuer's site, and the browser would
// not send the cookie of the session, which is strict. So a page leads on.
func (c *Console) signInBack(w http.ResponseWriter, r *http.Request) {
	name := c.loginCookie(r.URL.Query().Get("state"))
	kept := r.CookiesNamed(name)
	if len(kept) != 1 {
		c.showSignIn(w, r, http.StatusForbidden, "/", "This sign-in was not begun in this browser. Begin again.")
		return
	}
	c.setLogin(w, name, "")
	a, err := c.logins.open(kept[0].Value, c.redirectURI(r))
	if err != nil {
		c.showSignIn(w, r, http.StatusForbidden, "/", "This sign-in is over, or was not begun in this browser. Begin again.")
		return
	}
	from, allowed := c.o.From(r), true
	settings := c.o.Identities.Settings() // before the issuer is asked: a reload meanwhile ends the session
	id, until, err := c.o.OpenID.Finish(r.Context(), a.Login, r.URL.Query(), func() bool {
		allowed = c.asking.allow(from)
		return allowed
	})
	switch {
	case !allowed:
		w.Header().Set("Retry-After", "60")
		c.showSignIn(w, r, http.StatusTooManyRequests, a.To, "Too many people come back from an issuer at the moment. Wait for a minute, then begin again.")
		return
	case err != nil:
		c.o.Log.Warn("somebody could not sign in to the console at an issuer", "err", err)
		status, text := advised(err)
		c.showSignIn(w, r, status, a.To, text)
		return
	}
	c.asking.release(from)
	if tries, ok := c.sessions.endHash(a.Before); ok {
		c.o.Model(nil).EndTries(admin.Trier{Session: tries})
	}
	c.setCookie(w, c.sessions.beginUnder(id, until, settings))
	w.Header().Set("Refresh", "0; url="+a.To)
	c.write(w, http.StatusOK, "signedin", &page{Title: "Signed in", View: "signedin", Data: a.To})
}

// advised is how an error of an issuer is answered. The time leads to its line in the log.
func advised(err error) (status int, text string) {
	status, text = http.StatusForbidden, "Nobody can sign in there at the moment."
	if known, ok := errors.AsType[Advised](err); ok {
		text = known.Advice()
		if known.Elsewhere() {
			status = http.StatusBadGateway
		}
	}
	return status, text + " It was " + time.Now().UTC().Format(time.TimeOnly) + " UTC."
}

// signInPath is the page for signing in, from where one comes back to a path.
func signInPath(to string) string { return "/sign-in?" + url.Values{"to": {to}}.Encode() }
