package identity

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/upstream"
)

// TestTokenCache: what is held is bounded for each caller and in all, never
// longer than it is good, and found by the token or by its rights alone.
func TestTokenCache(t *testing.T) {
	var p Tokens
	id := func(subject, token string, scopes ...string) *gate.Identity {
		return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "https://id.example", Subject: subject}, Scopes: scopes, Token: token})
	}
	later := time.Now().Add(time.Hour)
	p.note(id("a", "0"), "nothing is held before it is asked for", later, true)
	if _, ok := p.Text("0"); ok {
		t.Error("a token is held that nobody needs")
	}
	p.Use(true)
	spec := upstream.Spec{PerRights: true}
	key := p.Key(&spec)
	broad, narrow := id("a", "1", "read", "admin"), id("a", "2", "read")
	p.note(broad, "broad", later, true)
	p.note(narrow, "narrow", later, true)
	for _, who := range []*gate.Identity{broad, narrow} {
		if got := key(context.Background(), spec.Holder(who.Key(), who.Rights())); got != who.Token {
			t.Errorf("apart from requests %v is shown %q", who.Scopes, got)
		}
	}
	if got := key(context.Background(), spec.Holder("a", "other rights")); got != "" {
		t.Errorf("for rights that nobody has shown there is %q", got)
	}
	p.note(id("b", "over", "read"), "over", time.Now().Add(-time.Second), true)
	if _, ok := p.Text("over"); ok {
		t.Error("a token is held that is not good any more")
	}
	for i := range 3 * maxTokensEach {
		p.note(id("many", fmt.Sprint("m", i), fmt.Sprint("s", i)), "x", later, true)
	}
	if len(p.of[id("many", "").Key()]) != maxTokensEach || len(p.byToken) != maxTokensEach+2 || len(p.latest) != len(p.byToken) {
		t.Errorf("%d tokens of one caller, %d and %d in all", len(p.of[id("many", "").Key()]), len(p.byToken), len(p.latest))
	}
	for i := range maxTokens {
		p.note(id(fmt.Sprint("c", i), fmt.Sprint("c", i)), "x", later, true)
	}
	if len(p.byToken) != maxTokens {
		t.Errorf("%d tokens are held", len(p.byToken))
	}
	if text, ok := p.Text("2"); !ok || text != "narrow" {
		t.Error("who comes late displaces others")
	}
	p.Use(false)
	if len(p.byToken)+len(p.of)+len(p.latest) != 0 {
		t.Error("tokens are held that nobody needs any more")
	}
}

// Apart from requests the newest token of some rights is shown as long as it is good,
// and forgotten then.
func TestTokenCacheGetsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Tokens
		p.Use(true)
		id := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "https://id.example", Subject: "a"}, Token: "1"})
		p.note(id, "text", time.Now().Add(time.Minute), true)
		spec := upstream.Spec{PerRights: true}
		key := p.Key(&spec)
		shown := func() string { return key(t.Context(), spec.Holder(id.Key(), id.Rights())) }
		time.Sleep(time.Minute)
		if got := shown(); got != "1" {
			t.Errorf("while it is good, %q is shown", got)
		}
		time.Sleep(time.Nanosecond)
		if got := shown(); got != "" {
			t.Errorf("when it is over, %q is shown", got)
		}
		if len(p.byToken)+len(p.of)+len(p.latest) != 0 {
			t.Errorf("held on to: %v", p.byToken)
		}
	})
}

// A token that somebody has shown in a browser is held for as long as the answer about it
// stands, and what its owner has sent is not shortened by it.
func TestLentTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Tokens
		p.Use(true)
		r := &http.Request{Header: http.Header{"Authorization": {"Bearer shown"}}}
		g := auth.Grant{
			Identity: gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "https://id.example", Subject: "a"}, Token: "1"}),
			Expires:  time.Now().Add(time.Hour), Until: time.Now().Add(time.Minute),
		}
		p.lent(r, &g)
		if text, ok := p.Text("1"); !ok || text != "shown" {
			t.Fatal("a token that was just shown is not there")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(p.byToken)+len(p.of)+len(p.latest) != 0 {
			t.Errorf("%d tokens are held after their time", len(p.byToken))
		}
		for name, both := range map[string][2]func(*http.Request, *auth.Grant){"sent first": {p.heard, p.lent}, "shown first": {p.lent, p.heard}} {
			g.Until = time.Now().Add(time.Minute)
			g.Expires = time.Now().Add(time.Hour)
			both[0](r, &g)
			both[1](r, &g)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if _, ok := p.Text("1"); !ok {
				t.Errorf("%s: the token of a caller is gone", name)
			}
			p.Use(false)
			p.Use(true)
		}
		// Another token of the same rights does not take the place of the caller's own.
		own := gate.NewIdentity(gate.Identity{Principal: g.Identity.Principal, Token: "own"})
		p.note(own, "own", time.Now().Add(time.Hour), true)
		spec := upstream.Spec{PerRights: true}
		key, holder := p.Key(&spec), spec.Holder(own.Key(), own.Rights())
		g.Until = time.Now().Add(time.Minute)
		p.lent(r, &g)
		for range 2 {
			if got := key(t.Context(), holder); got != "own" {
				t.Errorf("apart from requests %q is shown", got)
			}
			time.Sleep(2 * time.Minute) // the shown one is over
			synctest.Wait()
		}
	})
}
