package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// This file is what a browser sees of the gateway when somebody signs in to a
// server: a page that says what is about to happen, and the place where the
// authorization server sends people back to. A link leads there that names a
// principal; only that principal gets further (2025-11-25 client/elicitation,
// Phishing; the confused deputy of the security best practices).

const (
	signInPath   = "/oauth/"
	linkPath     = signInPath + "login/"
	callbackPath = signInPath + "callback"
	documentPath = signInPath + "client.json"

	// linkTime is how long a link is good.
	linkTime = 15 * time.Minute
	// provenTime is how long a browser is believed whose it is.
	provenTime = 10 * time.Minute
	// maxForm bounds what a form sends, in bytes.
	maxForm = 16 << 10

	sealLink   = seal.Kept + "login link"
	sealProven = seal.Kept + "login browser"
)

// link is what an address that a person is sent to says.
type link struct {
	Server    string `json:"s"`
	Principal string `json:"p"`
	Expires   int64  `json:"e"` // Unix seconds
	ID        string `json:"i"` // of this link alone
}

// SignInLink returns the address at which a principal signs in to a server, empty
// where browsers do not reach the gateway.
func (in *Daemon) SignInLink(server, principal string) (string, error) {
	base := in.publicly()
	if base == "" {
		return "", nil
	}
	text, err := json.Marshal(link{server, principal, time.Now().Add(linkTime).Unix(), rand.Text()})
	if err != nil {
		return "", fmt.Errorf("write a link: %w", err)
	}
	sealed, err := in.keys.Seal(sealLink, "", text)
	if err != nil {
		return "", fmt.Errorf("seal a link: %w", err)
	}
	return base + linkPath + sealed, nil
}

// signInDoor serves browsers.
type signInDoor struct {
	in *Daemon
}

func (in *Daemon) signIn() *signInDoor { return &signInDoor{in} }

// ServeHTTP implements http.Handler.
func (d *signInDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	base := d.in.publicly()
	if base == "" || !d.ownHost(base, r) {
		d.say(w, http.StatusForbidden, "Not here", "This gateway is reached at another address.")
		return
	}
	path, sealed := r.URL.Path, ""
	if rest, ok := strings.CutPrefix(path, linkPath); ok {
		path, sealed = linkPath, rest
	}
	switch {
	case path == documentPath && r.Method == http.MethodGet:
		d.document(w, base)
	case path == callbackPath && r.Method == http.MethodGet:
		d.callback(w, r, base)
	case path == linkPath && (r.Method == http.MethodGet || r.Method == http.MethodPost):
		d.link(w, r, base, sealed)
	default:
		d.say(w, http.StatusNotFound, "Nothing here", "There is no such page.")
	}
}

// ownHost tells whether a request is to the address at which browsers reach the
// gateway, so that no name of somebody else's leads here.
func (d *signInDoor) ownHost(base string, r *http.Request) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if strings.EqualFold(u.Host, r.Host) {
		return true
	}
	_, port, err := net.SplitHostPort(r.Host)
	name, _, _ := net.SplitHostPort(r.Host)
	return err == nil && port == u.Port() && oauth.ThisMachine(u.Hostname()) && oauth.ThisMachine(name)
}

// document describes the gateway to authorization servers (OAuth Client ID Metadata
// Documents).
func (d *signInDoor) document(w http.ResponseWriter, base string) {
	doc := oauth.NewDocument("toolgate", base+callbackPath)
	doc.ClientID, doc.ClientURI = base+documentPath, base
	body, err := json.Marshal(doc)
	if err != nil {
		d.say(w, http.StatusInternalServerError, "Not now", "The gateway cannot describe itself.")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(body)
}

// link leads the person whom it names to the authorization server, or asks for a
// key.
func (d *signInDoor) link(w http.ResponseWriter, r *http.Request, base, sealed string) {
	text, err := d.in.keys.Open(sealLink, "", sealed)
	var l link
	if err != nil || json.Unmarshal(text, &l) != nil || time.Now().Unix() > l.Expires {
		d.say(w, http.StatusNotFound, "This link is not good any more", "Make the call again to get another one.")
		return
	}
	if d.turnsAway(w, r) {
		return
	}
	s := d.in.source(l.Server)
	if s == nil {
		d.say(w, http.StatusNotFound, "This server is gone", "It is not in the configuration any more.")
		return
	}
	if !d.in.offersLink(s) { // any more: it was their own when the link was made
		d.say(w, http.StatusForbidden, "Not by a link", "What this server is shown is not provided by one person: everyone shares it, or it is had without people.")
		return
	}
	browser := d.browser(w, r, base)
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if !ownPage(r, base) || r.ParseForm() != nil || !d.ownForm(r, sealed, browser) {
			d.say(w, http.StatusForbidden, "This form was not made here", "Open the link again.")
			return
		}
		if r.PostForm.Has("proof") {
			if d.firstSent(w, r, &l, formProof) {
				d.prove(w, r, base, browser, r.PostForm.Get("proof"))
			}
			return
		}
	}
	who := d.opener(r, browser)
	switch {
	case who == "":
		d.ask(w, d.form(formProof, sealed, browser))
		return
	case who != l.Principal:
		d.in.Log.Warn("a link to sign in was opened by another person than the one it is for", "server", l.Server)
		d.say(w, http.StatusForbidden, "This link is for somebody else", "Whoever sent it to you would have got your access. Nothing was done.")
		return
	case r.Method == http.MethodGet:
		d.consent(w, r, s, &l, d.form(formConsent, sealed, browser), base)
		return
	}
	if !d.firstSent(w, r, &l, formConsent) {
		return
	}
	if s.Settings().Mode == credential.APIKey {
		if err := d.in.signDesk().Enter(r.Context(), s, l.Principal, r.PostForm.Get("key")); err != nil {
			d.fail(w, l.Server, err)
			return
		}
		d.say(w, http.StatusOK, "The key is kept", "Go back to your assistant and go on there.")
		return
	}
	to, _, err := d.in.signDesk().Begin(r.Context(), s, l.Principal, way(base, browser))
	if err != nil {
		d.fail(w, l.Server, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// turnsAway answers a process that this gateway has started. It is asked behind what
// costs less to find out.
func (d *signInDoor) turnsAway(w http.ResponseWriter, r *http.Request) bool {
	if !admin.FromDescendant(r.Context()) {
		return false
	}
	d.say(w, http.StatusForbidden, "Not from here", "It is "+admin.ReasonDescent+".")
	return true
}

// callback takes a person back.
func (d *signInDoor) callback(w http.ResponseWriter, r *http.Request, base string) {
	query := r.URL.Query()
	if len(query.Get("state")) != len(rand.Text()) { // as every login's is
		d.fail(w, "", credential.ErrNoLogin)
		return
	}
	if d.turnsAway(w, r) {
		return
	}
	browser := ""
	if c, err := r.Cookie(cookieName(base)); err == nil {
		browser = c.Value
	}
	server, err := d.in.signDesk().Finish(r.Context(), query, browser, d.in.source)
	if err != nil {
		d.fail(w, server, err)
		return
	}
	d.in.Log.Info("somebody has signed in", "server", server)
	d.say(w, http.StatusOK, "Signed in to "+server, "Go back to your assistant and go on there. This window can be closed.")
}

// fail tells that a login was not finished. Of what is wrong outside a browser sees
// no more than an error code.
func (d *signInDoor) fail(w http.ResponseWriter, server string, err error) {
	d.in.Log.Warn("a login was not finished", "server", server, "err", err)
	if errors.Is(err, store.ErrTooManyForms) || errors.Is(err, store.ErrTooManyLogins) {
		d.say(w, http.StatusTooManyRequests, "Not now", "This was tried too often in the last minutes. Try again in ten minutes.")
		return
	}
	why := "The gateway's log says why."
	if said, ok := errors.AsType[*oauth.Error](err); ok && said.Code != "" {
		why = "The authorization server answered: " + said.Code + "."
	}
	if errors.Is(err, credential.ErrNoLogin) {
		why = "It was finished already, or it took too long. Make the call again to get another link."
	}
	d.say(w, http.StatusBadRequest, "Not signed in", why)
}

// cookieName is the cookie that tells browsers apart, of this host alone where the
// gateway is reached over TLS.
func cookieName(base string) string {
	if strings.HasPrefix(base, "https://") {
		return "__Host-toolgate-login"
	}
	return "toolgate-login"
}

// browser returns the secret of a browser, and gives it one where it has none.
func (d *signInDoor) browser(w http.ResponseWriter, r *http.Request, base string) string {
	if c, err := r.Cookie(cookieName(base)); err == nil && len(c.Value) == len(rand.Text()) {
		return c.Value
	}
	secret := rand.Text()
	d.setCookie(w, base, cookieName(base), secret)
	return secret
}

func (d *signInDoor) setCookie(w http.ResponseWriter, base, name, value string) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(provenTime.Seconds()), HttpOnly: true,
		Secure: strings.HasPrefix(base, "https://"), SameSite: http.SameSiteLaxMode,
	})
}

// opener returns whose browser it is, empty where that is not known yet.
func (d *signInDoor) opener(r *http.Request, browser string) string {
	if id, err := d.in.Authenticate(r); err == nil {
		return id.Key() // everyone on this machine, or by a certificate
	}
	for _, c := range r.CookiesNamed(provenCookie) {
		if text, err := d.in.keys.Open(sealProven, browser, c.Value); err == nil {
			var p proven
			if json.Unmarshal(text, &p) == nil && time.Now().Unix() < p.Expires && d.knows(&p) {
				return p.Principal
			}
		}
	}
	return ""
}

// provenCookie says whose browser it is. It is sealed for that browser.
const provenCookie = "toolgate-login-as"

type proven struct {
	Principal  string `json:"p"`
	Credential string `json:"c"` // by which they proved it
	Expires    int64  `json:"e"`
}

// knows tells whether somebody may still be who they have proven to be: the key or the
// issuer by which they did is still one of the gateway.
func (d *signInDoor) knows(p *proven) bool {
	principal, ok := gate.ParsePrincipal(p.Principal)
	now := d.in.Identities.Load()
	return ok && now.Authenticated() && now.chain.Knows(gate.NewIdentity(gate.Identity{Principal: principal, Credential: p.Credential}))
}

// prove takes what a person proves with who they are: the API key or the token that
// their assistant uses here.
func (d *signInDoor) prove(w http.ResponseWriter, r *http.Request, base, browser, proof string) {
	if !d.in.Identities.Load().Authenticated() {
		d.say(w, http.StatusForbidden, "Not from there", "Open the link on the machine of the gateway.")
		return
	}
	g, err := d.in.grant(strings.TrimSpace(proof))
	if err != nil {
		d.say(w, http.StatusForbidden, "That is nobody's", "The gateway does not know this key. Open the link again to try another one.")
		return
	}
	text, err := json.Marshal(proven{g.Identity.Key(), g.Identity.Credential, time.Now().Add(provenTime).Unix()})
	if err != nil {
		d.fail(w, "", err)
		return
	}
	sealed, err := d.in.keys.Seal(sealProven, browser, text)
	if err != nil {
		d.fail(w, "", err)
		return
	}
	d.setCookie(w, base, provenCookie, sealed)
	http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
}

// consent says what is about to happen.
func (d *signInDoor) consent(w http.ResponseWriter, r *http.Request, s *credential.Source, l *link, form, base string) {
	set := s.Settings()
	p := signInPage{Title: "Sign in to " + set.Server, Form: form, Button: "Continue", Key: set.Mode == credential.APIKey}
	p.Rows = append(p.Rows, [2]string{"Server", set.Server}, [2]string{"Address", hostAndPath(set.URL)})
	if set.Mode == credential.OAuth {
		at, scopes, err := s.Where(r.Context(), l.Principal)
		if err != nil {
			d.fail(w, set.Server, err)
			return
		}
		p.Rows = append(p.Rows, [2]string{"Signs in at", at}, [2]string{"For the application", "toolgate"}, [2]string{"Comes back to", base + callbackPath})
		if len(scopes) > 0 {
			p.Rows = append(p.Rows, [2]string{"Asks for", strings.Join(scopes, ", ")})
		}
		p.Text = "You leave this page for the authorization server. What you allow there, toolgate uses for your calls to this server."
	} else {
		p.Button, p.Text = "Keep", "The key that you enter is kept unreadable, and sent to this server with your calls alone."
	}
	if set.Shared {
		p.Text += " Everyone who uses this gateway will act with it."
	}
	d.render(w, http.StatusOK, &p)
}

func (d *signInDoor) ask(w http.ResponseWriter, form string) {
	if !d.in.Identities.Load().Authenticated() {
		d.say(w, http.StatusForbidden, "Not from there", "Open the link on the machine of the gateway.")
		return
	}
	d.render(w, http.StatusOK, &signInPage{
		Title: "Who are you?", Form: form, Button: "Continue", Proof: true,
		Text: "This link is for one person. Enter the API key or token that your assistant uses with this gateway, so that nobody else signs in for you.",
	})
}

func (d *signInDoor) say(w http.ResponseWriter, status int, title, text string) {
	d.render(w, status, &signInPage{Title: title, Text: text})
}

// hostAndPath shows an address without what may be secret in it.
func hostAndPath(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// signedInTo has callers of a mount sent to where they sign in to its server, and
// wait for what they are listed then. Where one token is had without them there is
// nothing to wait for.
func (in *Daemon) signedInTo(m proxy.Mount, s *credential.Source, to reached) proxy.Mount {
	if s == nil || s.Settings().Shared && !peopleSignIn(s) {
		return m
	}
	m.SignInTool = upstream.SignInDefinition()
	m.Listed = func(id *gate.Identity, kind mcp.Capability, original string) bool {
		return to.Listed(holder(to, id), kind, original)
	}
	m.Await = func(ctx context.Context, id *gate.Identity, kind mcp.Capability, original string) error {
		return to.Await(ctx, holder(to, id), kind, original)
	}
	if !in.offersLink(s) {
		return m
	}
	m.SignIn = func(id *gate.Identity, why error) string {
		missing, ok := errors.AsType[upstream.MissingError](why)
		if !ok || !missing.NeedsLogin() {
			return ""
		}
		address, err := in.SignInLink(s.Settings().Server, id.Key())
		if err != nil {
			in.Log.Warn("nobody can be sent to sign in", "err", err)
		}
		return address
	}
	return m
}

// offersLink tells whether a person may be sent a link for a server: it is their own
// credential, or nobody is told apart.
func (in *Daemon) offersLink(s *credential.Source) bool {
	return peopleSignIn(s) && (!s.Settings().Shared || !in.Identities.Load().Authenticated())
}

// peopleSignIn tells whether people provide a server's credential.
func peopleSignIn(s *credential.Source) bool {
	people := []credential.Mode{credential.OAuth, credential.APIKey}
	return s != nil && slices.Contains(people, s.Settings().Mode)
}
