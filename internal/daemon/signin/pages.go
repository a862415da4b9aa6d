package signin

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/descent"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// This file has the pages that a browser sees when somebody signs in to a server: a
// page that describes the sign-in, and the callback of the authorization server. A
// link leads to the first page and names a principal; only that principal gets further
// (2025-11-25 client/elicitation, Phishing; the confused deputy of the security best
// practices).

const (
	Path         = "/oauth/"
	linkPath     = Path + "login/"
	callbackPath = Path + "callback"
	documentPath = Path + "client.json"

	// linkTime is how long a link is valid.
	linkTime = 15 * time.Minute
	// provenTime is how long a proof of a browser's principal is valid.
	provenTime = 10 * time.Minute
	// maxForm bounds a submitted form, in bytes.
	maxForm = 16 << 10

	sealLink   = seal.Kept + "login link"
	sealProven = seal.Kept + "login browser"
)

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	base := s.base()
	if base == "" || !s.ownHost(base, r) {
		s.say(w, http.StatusForbidden, "Not here", "This gateway is reached at another address.")
		return
	}
	path, sealed := r.URL.Path, ""
	if rest, ok := strings.CutPrefix(path, linkPath); ok {
		path, sealed = linkPath, rest
	}
	switch {
	case path == documentPath && r.Method == http.MethodGet:
		s.document(w, base)
	case path == callbackPath && r.Method == http.MethodGet:
		s.callback(w, r, base)
	case path == linkPath && (r.Method == http.MethodGet || r.Method == http.MethodPost):
		s.link(w, r, base, sealed)
	default:
		s.say(w, http.StatusNotFound, "Nothing here", "There is no such page.")
	}
}

// ownHost tells whether a request names the address at which browsers reach the
// gateway. That rejects foreign host names that resolve to it.
func (s *Service) ownHost(base string, r *http.Request) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if strings.EqualFold(u.Host, r.Host) {
		return true
	}
	_, port, err := net.SplitHostPort(r.Host)
	name, _, _ := net.SplitHostPort(r.Host)
	return err == nil && port == u.Port() && loopback.Host(u.Hostname()) && loopback.Host(name)
}

// document describes the gateway to authorization servers (OAuth Client ID Metadata
// Documents).
func (s *Service) document(w http.ResponseWriter, base string) {
	doc := oauth.NewDocument("toolgate", base+callbackPath)
	doc.ClientID, doc.ClientURI = base+documentPath, base
	body, err := json.Marshal(doc)
	if err != nil {
		s.say(w, http.StatusInternalServerError, "Not now", "The gateway cannot describe itself.")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(body)
}

// link sends the person of a link on to the authorization server, or asks for a key.
func (s *Service) link(w http.ResponseWriter, r *http.Request, base, sealed string) {
	text, err := s.o.Keys.Open(sealLink, "", sealed)
	var l link
	if err != nil || json.Unmarshal(text, &l) != nil || time.Now().Unix() > l.Expires {
		s.say(w, http.StatusNotFound, "This link is not good any more", "Make the call again to get another one.")
		return
	}
	if s.turnsAway(w, r) {
		return
	}
	source := s.source(l.Server)
	if source == nil {
		s.say(w, http.StatusNotFound, "This server is gone", "It is not in the configuration any more.")
		return
	}
	if !s.OffersLink(source) { // a reload may have changed this since the link was made
		s.say(w, http.StatusForbidden, "Not by a link", "What this server is shown is not provided by one person: everyone shares it, or it is had without people.")
		return
	}
	browser := s.browser(w, r, base)
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if !ownPage(r, base) || r.ParseForm() != nil || !s.ownForm(r, sealed, browser) {
			s.say(w, http.StatusForbidden, "This form was not made here", "Open the link again.")
			return
		}
		if r.PostForm.Has("proof") {
			if s.firstSent(w, r, &l, formProof) {
				s.prove(w, r, base, browser, r.PostForm.Get("proof"))
			}
			return
		}
	}
	who := s.opener(r, browser)
	switch {
	case who == "":
		s.ask(w, s.form(formProof, sealed, browser))
		return
	case who != l.Principal:
		s.o.Log.Warn("a link to sign in was opened by another person than the one it is for", "server", l.Server)
		s.say(w, http.StatusForbidden, "This link is for somebody else", "Whoever sent it to you would have got your access. Nothing was done.")
		return
	case r.Method == http.MethodGet:
		s.consent(w, r, source, &l, s.form(formConsent, sealed, browser), base)
		return
	}
	if !s.firstSent(w, r, &l, formConsent) {
		return
	}
	if source.Settings().Mode == credential.APIKey {
		if err := s.flow().Enter(r.Context(), source, l.Principal, r.PostForm.Get("key")); err != nil {
			s.fail(w, l.Server, err)
			return
		}
		s.say(w, http.StatusOK, "The key is kept", "Go back to your assistant and go on there.")
		return
	}
	to, _, err := s.flow().Begin(r.Context(), source, l.Principal, way(base, browser))
	if err != nil {
		s.fail(w, l.Server, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// turnsAway rejects a process that this gateway has started. It is called after the
// cheaper checks.
func (s *Service) turnsAway(w http.ResponseWriter, r *http.Request) bool {
	if !descent.OfRequest(r.Context()) {
		return false
	}
	s.say(w, http.StatusForbidden, "Not from here", "It is "+descent.Reason+".")
	return true
}

// callback finishes a login when the authorization server sends a person back.
func (s *Service) callback(w http.ResponseWriter, r *http.Request, base string) {
	query := r.URL.Query()
	if len(query.Get("state")) != len(rand.Text()) { // the length of every state
		s.fail(w, "", credential.ErrNoLogin)
		return
	}
	if s.turnsAway(w, r) {
		return
	}
	browser := ""
	if c, err := r.Cookie(cookieName(base)); err == nil {
		browser = c.Value
	}
	server, err := s.flow().Finish(r.Context(), query, browser, s.source)
	if err != nil {
		s.fail(w, server, err)
		return
	}
	s.o.Log.Info("somebody has signed in", "server", server)
	s.say(w, http.StatusOK, "Signed in to "+server, "Go back to your assistant and go on there. This window can be closed.")
}

// fail shows that a login failed. Of errors at other parties, the browser sees only an
// error code.
func (s *Service) fail(w http.ResponseWriter, server string, err error) {
	s.o.Log.Warn("a login was not finished", "server", server, "err", err)
	if errors.Is(err, store.ErrTooManyForms) || errors.Is(err, store.ErrTooManyLogins) {
		s.say(w, http.StatusTooManyRequests, "Not now", "This was tried too often in the last minutes. Try again in ten minutes.")
		return
	}
	why := "The gateway's log says why."
	if said, ok := errors.AsType[*oauth.Error](err); ok && said.Code != "" {
		why = "The authorization server answered: " + said.Code + "."
	}
	if errors.Is(err, credential.ErrNoLogin) {
		why = "It was finished already, or it took too long. Make the call again to get another link."
	}
	s.say(w, http.StatusBadRequest, "Not signed in", why)
}
