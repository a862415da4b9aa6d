package signin

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// cookieName returns the name of the cookie that identifies browsers. Over TLS it is
// restricted to this host.
func cookieName(base string) string {
	if strings.HasPrefix(base, "https://") {
		return "__Host-toolgate-login"
	}
	return "toolgate-login"
}

// browser returns the secret of a browser, and issues one where it has none.
func (s *Service) browser(w http.ResponseWriter, r *http.Request, base string) string {
	if c, err := r.Cookie(cookieName(base)); err == nil && len(c.Value) == len(rand.Text()) {
		return c.Value
	}
	secret := rand.Text()
	s.setCookie(w, base, cookieName(base), secret)
	return secret
}

func (s *Service) setCookie(w http.ResponseWriter, base, name, value string) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(provenTime.Seconds()), HttpOnly: true,
		Secure: strings.HasPrefix(base, "https://"), SameSite: http.SameSiteLaxMode,
	})
}

// opener returns the principal of a browser, empty while it is unknown.
func (s *Service) opener(r *http.Request, browser string) string {
	if id, err := s.o.Callers.Authenticate(r); err == nil {
		return id.Key() // the local principal, or that of a certificate
	}
	for _, c := range r.CookiesNamed(provenCookie) {
		if text, err := s.o.Keys.Open(sealProven, browser, c.Value); err == nil {
			var p proven
			if json.Unmarshal(text, &p) == nil && time.Now().Unix() < p.Expires && s.knows(&p) {
				return p.Principal
			}
		}
	}
	return ""
}

// provenCookie names the principal of a browser. It is sealed for that browser.
const provenCookie = "toolgate-login-as"

type proven struct {
	Principal  string `json:"p"`
	Credential string `json:"c"` // the credential that proved it
	Expires    int64  `json:"e"`
}

// knows tells whether a proof still holds: the API key or issuer that proved it must
// still be accepted.
func (s *Service) knows(p *proven) bool {
	principal, ok := gate.ParsePrincipal(p.Principal)
	now := s.o.Callers.InForce()
	return ok && now.Authenticated() && now.Knows(gate.NewIdentity(gate.Identity{Principal: principal, Credential: p.Credential}))
}

// prove checks who a person is by the API key or token that their assistant uses here.
func (s *Service) prove(w http.ResponseWriter, r *http.Request, base, browser, proof string) {
	if !s.o.Callers.Authenticated() {
		s.say(w, http.StatusForbidden, "Not from there", "Open the link on the machine of the gateway.")
		return
	}
	g, err := s.o.Callers.Grant(r.Context(), strings.TrimSpace(proof))
	if err != nil {
		s.say(w, http.StatusForbidden, "That is nobody's", "The gateway does not know this key. Open the link again to try another one.")
		return
	}
	text, err := json.Marshal(proven{g.Identity.Key(), g.Identity.Credential, time.Now().Add(provenTime).Unix()})
	if err != nil {
		s.fail(w, "", err)
		return
	}
	sealed, err := s.o.Keys.Seal(sealProven, browser, text)
	if err != nil {
		s.fail(w, "", err)
		return
	}
	s.setCookie(w, base, provenCookie, sealed)
	http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
}
