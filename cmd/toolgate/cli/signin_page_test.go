//go:build !windows

package cli

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// guards are what every page says to the browser.
var guards = map[string][]string{
	"Content-Security-Policy": {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"},
	"X-Frame-Options":         {"DENY"},
	"X-Content-Type-Options":  {"nosniff"},
	"Referrer-Policy":         {"no-referrer"},
	"Cache-Control":           {"no-store"},
}

// TestPagesAreGuarded has every page that a person is shown say that it is framed
// nowhere, kept nowhere, and told to nobody.
func TestPagesAreGuarded(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	h.write(t, servers{"web": {"url": s.URL}}, nil)
	_, at := h.up(t)
	testwait.Until(t, patience, "the state", func() bool { return h.servers(t)["web"].State == "needs_login" })
	address := h.link(t, "web__toolgate_sign_in")
	b := newBrowser(t)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for what, open := range map[string]func() (*http.Response, error){
		"consent":        func() (*http.Response, error) { return b.Get(address) },
		"a bad link":     func() (*http.Response, error) { return b.Get(address + "x") },
		"no page":        func() (*http.Response, error) { return b.Get(at + "/oauth/elsewhere") },
		"a bad return":   func() (*http.Response, error) { return b.Get(at + "/oauth/callback?code=canary&state=canary") },
		"no return":      func() (*http.Response, error) { return b.Get(at + "/oauth/callback") },
		"a bad form":     func() (*http.Response, error) { return b.PostForm(address, url.Values{"form": {"canary"}}) },
		"no form":        func() (*http.Response, error) { return b.PostForm(address, nil) },
		"another method": func() (*http.Response, error) { return b.Head(address) },
	} {
		resp, err := open()
		status, text := page(t, resp, err)
		for name, parts := range guards {
			for _, part := range parts {
				if got := resp.Header.Get(name); !strings.Contains(got, part) {
					t.Errorf("%s (%d): %s is %q", what, status, name, got)
				}
			}
		}
		if strings.Contains(text, "canary") || strings.Contains(text, "<script") || resp.Header.Get("Location") != "" {
			t.Errorf("%s (%d) repeats what was sent: %s", what, status, text)
		}
		for _, c := range resp.Cookies() {
			if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" {
				t.Errorf("%s sets %v", what, c)
			}
		}
	}
}

// TestFormsAreOneBrowsers has the form of the page that asks for consent sent by
// another browser, from another page, and without: nobody gets to the authorization
// server. A login that was begun is come back from once, by the browser that went.
func TestFormsAreOneBrowsers(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	h.write(t, servers{"web": {"url": s.URL}}, nil)
	_, at := h.up(t)
	testwait.Until(t, patience, "the state", func() bool { return h.servers(t)["web"].State == "needs_login" })
	address := h.link(t, "web__toolgate_sign_in")
	own, other := newBrowser(t), newBrowser(t)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	own.CheckRedirect, other.CheckRedirect = stay, stay
	_, text := own.open(t, address)
	form := formField.FindStringSubmatch(text)[1]
	_, _ = other.open(t, address) // which has a secret of its own
	send := func(b *browser, form, origin string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(url.Values{"form": {form}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		resp, err := b.Do(r)
		page(t, resp, err)
		return resp
	}
	for what, resp := range map[string]*http.Response{
		"another browser": send(other, form, ""), "another page": send(own, form, "https://evil.example"), "no page": send(own, form, "null"),
		"another port": send(own, form, "http://127.0.0.1:1"), "no form": send(own, "", at), "another form": send(own, strings.Repeat("0", len(form)), at),
		"a browser that was not here": send(newBrowser(t), form, at),
	} {
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: status %d, to %q", what, resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	resp := send(own, form, at)
	to := resp.Header.Get("Location")
	if resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, a.Issuer+"/authorize?") {
		t.Fatalf("the form is answered %d, to %q", resp.StatusCode, to)
	}
	gone, err := other.Get(to) // the authority knows no browsers
	page(t, gone, err)
	back := gone.Header.Get("Location")
	if status, _ := other.open(t, back); status != http.StatusBadRequest || len(a.Requests("/token")) != 0 {
		t.Errorf("another browser comes back with %d", status)
	}
	if status, _ := own.open(t, back); status != http.StatusBadRequest || len(a.Requests("/token")) != 0 {
		t.Errorf("a state that was used by another browser is good: %d", status)
	}
	own.CheckRedirect = nil
	own.signIn(t, h.link(t, "web__toolgate_sign_in"))
	h.works(t, "somebody")
}
