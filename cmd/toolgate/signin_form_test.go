//go:build !windows

package main

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/upstream/oauth/oauthtest"
)

// TestFormsAreSentOnce has the form of the page that asks for consent sent 20 times at
// once: one gets to the authorization server, all others are told that it was sent. It
// is good for no other link.
func TestFormsAreSentOnce(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	h.write(t, servers{"web": {"url": s.URL}, "other": {"url": s.URL}}, nil)
	h.up(t)
	for _, name := range []string{"web", "other"} {
		eventually(t, "the state", func() bool { return h.servers(t)[name].State == "needs_login" })
	}
	address, another := h.link(t, "web__toolgate_sign_in"), h.link(t, "other__toolgate_sign_in")
	b := newBrowser(t)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, text := b.open(t, address)
	if status, answer := b.submit(t, another, text, nil); status != http.StatusForbidden {
		t.Errorf("the form of one link is taken for another: %d, %s", status, answer)
	}
	if status, answer := b.submit(t, address, text, url.Values{"proof": {"x"}}); status != http.StatusForbidden || !strings.Contains(answer, "not made here") {
		t.Errorf("the form that agrees is taken for one that proves: %d, %s", status, answer)
	}
	var all sync.WaitGroup
	var went, told atomic.Int64
	for range 20 {
		all.Go(func() {
			resp, err := b.PostForm(address, url.Values{"form": {formField.FindStringSubmatch(text)[1]}})
			switch status, answer := page(t, resp, err); {
			case status == http.StatusSeeOther && strings.HasPrefix(resp.Header.Get("Location"), a.Issuer+"/authorize?"):
				went.Add(1)
			case status == http.StatusConflict && strings.Contains(answer, "This form was sent already") && resp.Header.Get("Location") == "":
				told.Add(1)
			default:
				t.Errorf("answered %d: %s", status, answer)
			}
		})
	}
	all.Wait()
	if went.Load() != 1 || told.Load() != 19 {
		t.Errorf("%d went on and %d were told that it was sent, want 1 and 19", went.Load(), told.Load())
	}
	b.CheckRedirect = nil
	b.signIn(t, address) // whose page has another form each time
	h.works(t, "somebody")
}

// TestKeysAreSentOnce has the form with a key sent again with another key: the first is
// the one that is used.
func TestKeysAreSentOnce(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	s := oauthtest.NewServer(t, a)
	s.Accept = func(r *http.Request) (string, bool) {
		return "alice", r.Header.Get("Authorization") == "Bearer first-canary"
	}
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{
		"servers": map[string]any{"web": map[string]any{"auth": map[string]any{"mode": "key"}}},
	})
	h.up(t)
	eventually(t, "the state", func() bool { return h.servers(t)["web"].State == "needs_login" })
	address, b := h.link(t, "web__toolgate_sign_in"), newBrowser(t)
	_, text := b.open(t, address)
	if status, answer := b.submit(t, address, text, url.Values{"key": {"first-canary"}}); status != http.StatusOK || !strings.Contains(answer, "The key is kept") {
		t.Fatalf("the key is answered %d: %s", status, answer)
	}
	if status, answer := b.submit(t, address, text, url.Values{"key": {"other-canary"}}); status != http.StatusConflict {
		t.Errorf("the second is answered %d: %s", status, answer)
	}
	h.works(t, "alice")
}
