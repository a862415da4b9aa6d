//go:build !windows

package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
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
		testwait.Until(t, patience, "the state", func() bool { return h.servers(t)[name].State == "needs_login" })
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
	testwait.Until(t, patience, "the state", func() bool { return h.servers(t)["web"].State == "needs_login" })
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

// callers runs a gateway that knows alice and bob by keys and has each sign in to a
// server for themselves. call makes a call of one of them.
func (h *home) callers(t *testing.T, a *oauthtest.Authority) (call func(who, tool string) string) {
	t.Helper()
	s := oauthtest.NewServer(t, a)
	var keys []any
	for _, who := range []string{"alice", "bob"} {
		keys = append(keys, map[string]any{"id": who, "sha256": sum("canary-key-of-" + who), "subject": who})
	}
	h.write(t, servers{"web": {"url": s.URL}}, map[string]any{
		"auth": map[string]any{"keys": keys}, "gate": map[string]any{"open": true}, "registry": map[string]any{"on_new": "enable"},
		"servers": map[string]any{"web": map[string]any{"auth": map[string]any{"per": "principal"}}},
	})
	_, at := h.up(t)
	client := newClient(t)
	return func(who, tool string) string {
		t.Helper()
		status, text := post(t, client, at, "canary-key-of-"+who, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{"text":"hello"},`, tool))
		if status != http.StatusOK {
			t.Errorf("%s is answered %d: %s", who, status, text)
		}
		return string(text)
	}
}

// TestProofsAreSentOnce has the form that asks who somebody is sent 20 times at once
// with the right key: one is believed. Links are all different, and who sends form
// after form keeps nobody else from signing in.
func TestProofsAreSentOnce(t *testing.T) {
	h, a := newHome(t), oauthtest.New(t)
	call := h.callers(t, a)
	address := linkIn.FindString(call("alice", "web__toolgate_sign_in"))
	for range 5 {
		if again := linkIn.FindString(call("alice", "web__toolgate_sign_in")); again == address || again == "" {
			t.Fatalf("the next link is %q, the one before %q", again, address)
		}
	}
	b := newBrowser(t)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, text := b.open(t, address)
	var all sync.WaitGroup
	var believed, told atomic.Int64
	for range 20 {
		all.Go(func() {
			resp, err := b.PostForm(address, url.Values{"form": {formField.FindStringSubmatch(text)[1]}, "proof": {"canary-key-of-alice"}})
			switch status, answer := page(t, resp, err); {
			case status == http.StatusSeeOther && len(resp.Cookies()) == 1:
				believed.Add(1)
			case status == http.StatusConflict && strings.Contains(answer, "This form was sent already") && len(resp.Cookies()) == 0:
				told.Add(1)
			default:
				t.Errorf("answered %d: %s", status, answer)
			}
		})
	}
	all.Wait()
	if believed.Load() != 1 || told.Load() != 19 {
		t.Errorf("%d were believed and %d told that it was sent, want 1 and 19", believed.Load(), told.Load())
	}

	flood, refused := newBrowser(t), 0
	for range 120 {
		_, text := flood.open(t, address)
		switch status, answer := flood.submit(t, address, text, url.Values{"proof": {"nobody's"}}); {
		case status == http.StatusTooManyRequests && strings.Contains(answer, "ten minutes"):
			refused++
		case status != http.StatusForbidden:
			t.Fatalf("answered %d: %s", status, answer)
		}
	}
	if refused == 0 {
		t.Error("120 forms of one person were taken")
	}
	// Who was known before is not asked, and others are known as ever.
	b.CheckRedirect = nil
	a.User = "alice"
	b.signIn(t, address)
	a.User = "bob"
	own, of := newBrowser(t), linkIn.FindString(call("bob", "web__toolgate_sign_in"))
	_, text = own.open(t, of)
	if status, text := own.submit(t, of, text, url.Values{"proof": {"canary-key-of-bob"}}); status != http.StatusOK || !strings.Contains(text, "Signs in at") {
		t.Fatalf("bob's key is answered %d: %s", status, text)
	}
	own.signIn(t, of)
	for _, who := range []string{"alice", "bob"} {
		testwait.Until(t, patience, "a call of "+who, func() bool { return strings.Contains(call(who, "web__echo"), who+":hello") })
	}
}
