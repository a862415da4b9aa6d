package console

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/loopback"
)

// policy is the content security policy of every answer.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the headers that every answer has.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // "no-referrer" would make the origin of forms null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
}

// framed are the destinations of requests whose answer is shown inside a page. The headers
// of the answer forbid to show it; refusing the request also keeps it from doing anything.
var framed = []string{"iframe", "frame", "fencedframe", "embed", "object"}

// admitted tells whether a request may have come from a page of this console or from a
// person; the text says why not.
func (c *Console) admitted(r *http.Request) (refusal string) {
	if !c.named(r.Host) {
		return "The console is not served under this name. Open it under its own address, or add the name to listen.hosts."
	}
	if slices.Contains(framed, r.Header.Get("Sec-Fetch-Dest")) {
		return "The console is not shown inside another page."
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		// A page elsewhere may lead here, but not read from here.
		if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return "Another site may not read from the console."
		}
		if r.Header.Get("Origin") != "" && !c.own(r) {
			return "Another site may not read from the console."
		}
		return ""
	}
	if !c.own(r) {
		return "This form does not come from the console."
	}
	return ""
}

// own tells whether the origin of a request is the console's. A browser names the origin
// with each form.
func (c *Console) own(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) != 1 {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	u, err := url.Parse(origins[0])
	scheme := "http"
	if c.o.Secure {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

// named tells whether a Host header names this console. Names that the settings do not
// have may be rebound to this machine by anybody; addresses may not.
func (c *Console) named(host string) bool {
	name := loopback.Name(host)
	if slices.ContainsFunc(c.o.Hosts(), func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) }) {
		return true
	}
	if c.o.Local {
		return loopback.Host(name)
	}
	return net.ParseIP(name) != nil
}

// local tells whether a request comes from this machine.
func local(r *http.Request) bool { return loopback.Address(r.RemoteAddr) }

// cookieName is the name of the session's cookie. Over TLS no other host can set it.
func (c *Console) cookieName() string {
	if c.o.Secure {
		return "__Host-toolgate-console"
	}
	return "toolgate-console"
}

// setCookie gives a browser the secret of its session; an empty one takes it away.
func (c *Console) setCookie(w http.ResponseWriter, secret string) {
	age := int(sessionTime.Seconds())
	if secret == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{Name: c.cookieName(), Value: secret, Path: "/", MaxAge: age, HttpOnly: true, Secure: c.o.Secure, SameSite: http.SameSiteStrictMode})
}

// cookie returns the secret of the session of a request. Two of them are none: a server of
// another port may have added one.
func (c *Console) cookie(r *http.Request) string {
	if all := r.CookiesNamed(c.cookieName()); len(all) == 1 {
		return all[0].Value
	}
	return ""
}

// backTo returns a path of the console to return to after signing in.
func backTo(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") ||
		strings.HasPrefix(u.Path, "/sign-in") || strings.HasPrefix(u.Path, "/open/") { // these lead on by themselves
		return "/"
	}
	return u.RequestURI()
}
