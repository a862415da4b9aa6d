package console

import (
	"net/http"
	"strings"
)

// openLink signs a browser in by a link of [Console.Link].
func (c *Console) openLink(w http.ResponseWriter, r *http.Request) {
	if !local(r) {
		c.say(w, http.StatusForbidden, "Not from there", "A link is for a browser on the machine of the gateway.")
		return
	}
	if !c.sessions.open(r.PathValue("secret")) {
		c.say(w, http.StatusForbidden, "This link is used", "A link works once, for one minute. `toolgate console` makes another.")
		return
	}
	c.sessions.end(c.cookie(r))
	c.setCookie(w, c.sessions.begin(nil, noEnd))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// signInData is what the page for signing in shows.
type signInData struct {
	To      string   // where to go afterwards
	Keys    bool     // callers have keys or tokens
	Local   bool     // a link works here
	Issuers []string // where people can sign in
	Problem string
}

// signInPage says how to sign in.
func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	c.showSignIn(w, r, http.StatusOK, backTo(r.FormValue("to")), "")
}

func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request, status int, to, problem string) {
	c.write(w, status, "signin", &page{Title: "Sign in", View: "signin", Data: &signInData{
		To: to, Keys: c.o.Identities.Authenticated(), Local: local(r), Issuers: c.o.OpenID.Issuers(), Problem: problem,
	}})
}

// signIn signs somebody in by the key or token that their client uses. The origin of the
// form was checked, so that no other page signs a browser in.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	to, key := backTo(r.FormValue("to")), strings.TrimSpace(r.PostFormValue("key"))
	if !c.o.Identities.Authenticated() || key == "" {
		c.showSignIn(w, r, http.StatusForbidden, to, "Nobody is known by a key here.")
		return
	}
	id, until, err := c.o.Identities.SignIn(r, key)
	if err != nil {
		c.showSignIn(w, r, http.StatusForbidden, to, "The gateway does not know this key.")
		return
	}
	c.sessions.end(c.cookie(r))
	c.setCookie(w, c.sessions.begin(id, until))
	http.Redirect(w, r, to, http.StatusSeeOther)
}
