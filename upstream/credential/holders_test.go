package credential_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// keyed returns a source to which everyone enters a key.
func keyed(most int) (*safe, *credential.Source, *credential.Flow) {
	v := newSafe()
	o := credential.Options{Vault: v, Logger: slog.New(slog.DiscardHandler), Changed: func(string, string) {}, Principals: most}
	set := credential.Settings{Server: "web", URL: "https://mcp.example/mcp", Mode: credential.APIKey, Header: "X-Key"}
	return v, credential.New(set, &oauth.Client{HTTP: http.DefaultTransport}, o), &credential.Flow{Options: o}
}

// show has a principal's key sent, which has to be its own.
func show(t *testing.T, s *credential.Source, principal string) {
	t.Helper()
	if header, err := s.Headers(t.Context(), principal); err != nil || header.Get("X-Key") != "key-"+principal {
		t.Errorf("%s is sent with %q: %v", principal, header.Get("X-Key"), err)
	}
}

func enter(t *testing.T, s *credential.Source, d *credential.Flow, principal string) {
	t.Helper()
	if err := d.Enter(t.Context(), s, principal, "key-"+principal); err != nil {
		t.Fatal(err)
	}
}

// TestPrincipalsAreBounded has 20,000 callers, from many sides at once: no more than
// the bound are remembered, each is sent with its own key also when it was forgotten,
// and neither who has no key nor a list of who has to sign in leaves anything behind.
func TestPrincipalsAreBounded(t *testing.T) {
	const callers, most = 20_000, 4096 // the default
	_, s, d := keyed(0)
	for i := range callers {
		enter(t, s, d, fmt.Sprint(i))
	}
	if n := s.Remembered(); n > most {
		t.Errorf("%d are remembered of who has entered a key", n)
	}
	for range 2 {
		var all sync.WaitGroup
		for part := range 8 {
			all.Go(func() {
				for i := part; i < callers; i += 8 {
					show(t, s, fmt.Sprint(i))
					show(t, s, fmt.Sprint(i%most)) // whom all ask for
				}
			})
		}
		all.Wait()
		if n := s.Remembered(); n > most || n < most/2 {
			t.Errorf("%d are remembered, want %d at most", n, most)
		}
	}
	for i := range callers {
		if _, err := s.Headers(t.Context(), fmt.Sprint("nobody ", i)); err == nil {
			t.Fatal("somebody without a key is sent")
		}
		if st, err := s.State(t.Context(), fmt.Sprint("listed ", i)); err != nil || !st.Needed {
			t.Fatalf("State = %v, %v", st, err)
		}
	}
	if n := s.Remembered(); n > most {
		t.Errorf("%d are remembered after calls of those who have no key", n)
	}
}

// TestIdlePrincipalsAreForgotten has callers come and go: who was not asked for in a
// while is forgotten, who was is not.
func TestIdlePrincipalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, d := keyed(0)
		for i := range 100 {
			enter(t, s, d, fmt.Sprint(i))
			show(t, s, fmt.Sprint(i))
		}
		for range 4 {
			time.Sleep(15 * time.Minute)
			show(t, s, "7")
			enter(t, s, d, "news")
			show(t, s, "news")
		}
		if n := s.Remembered(); n != 2 {
			t.Errorf("%d are remembered, want the two that are asked for", n)
		}
		v.mu.Lock()
		clear(v.rows)
		v.mu.Unlock()
		show(t, s, "7") // which is not read for it
	})
}

// remembersOne returns a source that remembers one caller, and what alice is sent with.
func remembersOne(t *testing.T) (w *world, sent http.Header) {
	t.Helper()
	w = newWorld(t)
	w.most = 1
	w.source, w.flow = w.another()
	w.a.Rotate = true
	w.login(t, "alice")
	header, err := w.source.Headers(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	return w, header.Clone()
}

// crowd has others make requests.
func (w *world) crowd(t *testing.T) {
	t.Helper()
	for i := range 100 {
		if _, err := w.source.Headers(t.Context(), fmt.Sprint(i)); err == nil {
			t.Error("somebody is sent who has not signed in")
		}
	}
}

// TestRenewalsOutlastTheBound has a renewal under way, and others wait for it, while
// more callers come than are remembered: there is one renewal, and all have its token.
func TestRenewalsOutlastTheBound(t *testing.T) {
	w, old := remembersOne(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.a.Token = func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() { close(began) })
		<-goOn
		return false
	}
	w.a.Revoke(false)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if i > 0 { // the others come while the first renews
				<-began
			}
			again, err := w.source.Refused(t.Context(), "alice", old, http.StatusUnauthorized, http.Header{})
			header, headErr := w.source.Headers(t.Context(), "alice")
			if !again || err != nil || headErr != nil || header.Get("Authorization") == old.Get("Authorization") {
				t.Errorf("%v, %v, %v", again, err, headErr)
			}
		})
	}
	<-began
	w.crowd(t)
	close(goOn)
	all.Wait()
	if n := len(w.a.Requests("/token")); n != 2 || w.vault.renewed != 1 {
		t.Errorf("%d tokens were asked for and %d renewals kept, want the code's and one more", n, w.vault.renewed)
	}
}

// TestUnkeptRenewalsOutlastTheBound has a renewal that could not be kept: it is kept
// later, whoever came in between.
func TestUnkeptRenewalsOutlastTheBound(t *testing.T) {
	w, old := remembersOne(t)
	w.a.Revoke(false)
	w.vault.broken = errors.New("the disk is full")
	if again, err := w.source.Refused(t.Context(), "alice", old, http.StatusUnauthorized, http.Header{}); again || err == nil {
		t.Errorf("a token is used that is not kept: %v, %v", again, err)
	}
	w.crowd(t)
	w.vault.broken = nil
	header, err := w.source.Headers(t.Context(), "alice")
	if err != nil {
		t.Fatalf("after the store is back: %v", err)
	}
	if _, ok := w.a.Knows(strings.TrimPrefix(header.Get("Authorization"), "Bearer ")); !ok || len(w.a.Requests("/token")) != 2 {
		t.Errorf("the token that was kept late is not used; %d were asked for", len(w.a.Requests("/token")))
	}
	w.crowd(t)
	if n := w.source.Remembered(); n != 1 {
		t.Errorf("%d are remembered in the end", n)
	}
}

// What is hidden is what is in use: each caller's token, however many callers there are,
// until it is replaced, or its caller forgotten, or the server gone.
func TestSecretsInUseAreHidden(t *testing.T) {
	hidden, retired := map[string]int{}, 0
	var mu sync.Mutex
	v := newSafe()
	s := credential.New(credential.Settings{
		Server: "web", URL: "https://mcp.example/mcp", Mode: credential.APIKey, Header: "Authorization", Prefix: "Bearer ",
	}, &oauth.Client{HTTP: http.DefaultTransport}, credential.Options{
		Vault: v, Logger: slog.New(slog.DiscardHandler), Changed: func(string, string) {}, Principals: 500,
		Hide: func(secret string) func() {
			mu.Lock()
			defer mu.Unlock()
			hidden[secret]++
			return func() {
				mu.Lock()
				defer mu.Unlock()
				retired++
				if hidden[secret]--; hidden[secret] == 0 {
					delete(hidden, secret)
				}
			}
		},
	})
	flow := &credential.Flow{Options: credential.Options{Vault: v, Logger: slog.New(slog.DiscardHandler), Changed: func(string, string) {}}}
	use := func(who, key string) {
		t.Helper()
		if err := flow.Enter(t.Context(), s, who, key); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Headers(t.Context(), who); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 400 {
		use(fmt.Sprint(i), fmt.Sprintf("key-of-%d", i))
	}
	if len(hidden) != 400 || retired != 0 {
		t.Errorf("%d are hidden and %d were retired, want all 400", len(hidden), retired)
	}
	use("0", "another-key")
	if hidden["key-of-0"] != 0 || hidden["another-key"] != 1 {
		t.Error("what was replaced is taken for in use")
	}
	for i := range 400 {
		use(fmt.Sprint(400+i), fmt.Sprintf("key-of-%d", 400+i))
	}
	if n := s.Remembered(); len(hidden) != n {
		t.Errorf("%d are hidden of %d callers", len(hidden), n)
	}
	s.Close()
	if len(hidden) != 0 {
		t.Errorf("%d are hidden after the end", len(hidden))
	}
}
