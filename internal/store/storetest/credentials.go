package storetest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

// linear returns a credential of one principal.
func linear(principal string) store.CredentialRecord {
	return store.CredentialRecord{
		CredentialKey: store.CredentialKey{
			Server: "linear", Principal: principal, Issuer: "https://as.example", Resource: "https://mcp.example/mcp", Scopes: "read write",
		},
		Body: []byte("sealed for \x00\xff" + principal),
	}
}

func putCredential(t *testing.T, s *store.Store, r store.CredentialRecord) int64 {
	t.Helper()
	version, err := s.Credentials().Put(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func credentials(t *testing.T, s *store.Store) {
	c := s.Credentials()
	alice, bob, all := linear("alice\x00\xff"), linear("bob"), linear("")
	for _, r := range []store.CredentialRecord{alice, bob, all} {
		if v := putCredential(t, s, r); v != 1 {
			t.Errorf("version %d of the first one", v)
		}
	}
	wider := alice
	wider.Scopes, wider.Body = "admin read write", []byte("wider")
	if v := putCredential(t, s, wider); v != 2 {
		t.Errorf("version %d after a second login", v)
	}
	for _, want := range []store.CredentialRecord{wider, bob, all} {
		got, ok, err := c.Find(t.Context(), "linear", want.Principal)
		if err != nil || !ok || got.CredentialKey != want.CredentialKey || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("of %q: %+v, %v, %v; want %+v", want.Principal, got, ok, err, want)
		}
	}
	for _, key := range [][2]string{{"Linear", "bob"}, {"linear", "bo"}, {"linear", "BOB"}} {
		if _, ok, err := c.Find(t.Context(), key[0], key[1]); ok || err != nil {
			t.Errorf("%q: found %v, error %v", key, ok, err)
		}
	}
	list, err := c.List(t.Context())
	var who []string
	for _, r := range list {
		who = append(who, r.Principal)
		if r.Body != nil || r.SavedAt.IsZero() {
			t.Errorf("listed: %+v", r)
		}
	}
	if diff := cmp.Diff([]string{"", "alice\x00\xff", "bob"}, who); diff != "" || err != nil {
		t.Errorf("listed (-want +got), %v:\n%s", err, diff)
	}
	if ok, err := c.Delete(t.Context(), "linear", "bob"); !ok || err != nil {
		t.Errorf("Delete = %v, %v", ok, err)
	}
	if ok, err := c.Delete(t.Context(), "linear", "bob"); ok || err != nil {
		t.Errorf("second Delete = %v, %v", ok, err)
	}
	if _, ok, _ := c.Find(t.Context(), "linear", ""); !ok {
		t.Error("with Bob's the shared one is gone")
	}
	for name, bad := range map[string]store.CredentialRecord{
		"no server":  {},
		"too long":   {CredentialKey: store.CredentialKey{Server: "s", Principal: strings.Repeat("x", 2000)}},
		"too large":  {CredentialKey: store.CredentialKey{Server: "s"}, Body: make([]byte, 1<<20)},
		"not a text": {CredentialKey: store.CredentialKey{Server: "s", Issuer: "\xff"}},
	} {
		if _, err := c.Put(t.Context(), bad); err == nil {
			t.Errorf("%s: kept", name)
		}
	}
}

func credentialRenewal(t *testing.T, s *store.Store) {
	c, r := s.Credentials(), linear("alice")
	version := putCredential(t, s, r)
	lease := func(holder string, version int64, until time.Duration) bool {
		t.Helper()
		ok, err := c.Lease(t.Context(), r.CredentialKey, version, holder, time.Now().Add(until))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for _, step := range []struct {
		holder  string
		version int64
		until   time.Duration
		want    bool
	}{
		{"a", version + 1, time.Hour, false}, // of a version that there is not
		{"a", version, time.Hour, true},
		{"b", version, time.Hour, false},
		{"a", version, -time.Hour, true}, // its own, which is over at once
		{"b", version, time.Hour, true},  // whoever had it does not come back
		{"a", version, time.Hour, false},
	} {
		if got := lease(step.holder, step.version, step.until); got != step.want {
			t.Errorf("%+v: %v", step, got)
		}
	}
	if err := c.Release(t.Context(), r.CredentialKey, "a"); err != nil || lease("a", version, time.Hour) {
		t.Error("a lease was given back by another", err)
	}
	if err := c.Release(t.Context(), r.CredentialKey, "b"); err != nil || !lease("a", version, time.Hour) {
		t.Error("a lease was not given back", err)
	}
	next, ok, err := c.Renew(t.Context(), r.CredentialKey, version, []byte("new"))
	if next != version+1 || !ok || err != nil {
		t.Fatal(next, ok, err)
	}
	if _, ok, err := c.Renew(t.Context(), r.CredentialKey, version, []byte("late")); ok || err != nil {
		t.Error("an old version was renewed", err)
	}
	got, _, _ := c.Find(t.Context(), "linear", "alice")
	if string(got.Body) != "new" || got.Version != next {
		t.Errorf("after the renewal: %+v", got)
	}
	if !lease("b", next, time.Hour) {
		t.Error("the lease outlived the renewal")
	}
	if _, err := c.Delete(t.Context(), "linear", "alice"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := c.Renew(t.Context(), r.CredentialKey, next, []byte("revoked")); ok || err != nil {
		t.Error("what was removed is renewed", err)
	}
}

func credentialRace(t *testing.T, s *store.Store) {
	r := linear("alice")
	version := putCredential(t, s, r)
	holders := make(chan string, 20)
	for i := range 20 {
		holders <- string(rune('a' + i))
	}
	if n := Race(t, 20, func(s *store.Store) (bool, error) {
		return s.Credentials().Lease(t.Context(), r.CredentialKey, version, <-holders, time.Now().Add(time.Hour))
	}, s); n != 1 {
		t.Errorf("%d of 20 have the lease", n)
	}
	if n := Race(t, 20, func(s *store.Store) (bool, error) {
		_, ok, err := s.Credentials().Renew(t.Context(), r.CredentialKey, version, []byte("new"))
		return ok, err
	}, s); n != 1 {
		t.Errorf("%d of 20 have renewed it", n)
	}
}

// forms sends more forms than are remembered: by one person, who alone is refused, and
// by so many that all are. Pending logins are not affected, and new ones can begin.
func forms(t *testing.T, s *store.Store) {
	const each, all = 100, 10_000
	l, later := s.Logins(), time.Now().Add(time.Hour)
	if err := l.Keep(t.Context(), "under way", []byte("body"), later); err != nil {
		t.Fatal(err)
	}
	for i := range each {
		if first, err := l.Spend(t.Context(), "mallory", strconv.Itoa(i), later); !first || err != nil {
			t.Fatalf("the form %d: %v, %v", i, first, err)
		}
	}
	if first, err := l.Spend(t.Context(), "mallory", "one more", later); first || !errors.Is(err, store.ErrTooManyForms) {
		t.Errorf("one more than there may be of one: %v, %v", first, err)
	}
	if first, err := l.Spend(t.Context(), "alice", "0", later); !first || err != nil {
		t.Errorf("the form of another: %v, %v", first, err)
	}
	err := s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		for i := range all {
			if _, err := tx.Exec(ctx, `INSERT INTO login (id, body, expires) VALUES (?, ?, ?)`, "spent:"+strconv.Itoa(i), []byte{}, later.UnixNano()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := l.Spend(t.Context(), "bob", "0", later); first || !errors.Is(err, store.ErrTooManyForms) {
		t.Errorf("one more than there may be of all: %v, %v", first, err)
	}
	if err := l.Keep(t.Context(), "begun now", []byte("body"), later); err != nil {
		t.Errorf("beside so many forms: %v", err)
	}
	for _, id := range []string{"under way", "begun now"} {
		if body, ok, err := l.Take(t.Context(), id); string(body) != "body" || !ok || err != nil {
			t.Errorf("the login %s: %q, %v, %v", id, body, ok, err)
		}
	}
}

func logins(t *testing.T, s *store.Store) {
	l := s.Logins()
	if err := l.Keep(t.Context(), "id", []byte("body"), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := l.Keep(t.Context(), "id", []byte("other"), time.Now().Add(time.Hour)); err == nil {
		t.Error("one was replaced")
	}
	if n := Race(t, 20, func(s *store.Store) (bool, error) {
		body, ok, err := s.Logins().Take(t.Context(), "id")
		if ok && string(body) != "body" {
			err = errors.New("it is another: " + string(body))
		}
		return ok, err
	}, s); n != 1 {
		t.Errorf("%d of 20 took it", n)
	}
	if err := l.Keep(t.Context(), "old", nil, time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := l.Take(t.Context(), "old"); ok || err != nil {
		t.Errorf("an expired one: %v, %v", ok, err)
	}
	if n := Race(t, 20, func(s *store.Store) (bool, error) {
		return s.Logins().Spend(t.Context(), "alice", "id", time.Now().Add(time.Hour))
	}, s); n != 1 {
		t.Errorf("%d of 20 were the first to spend it", n)
	}
	if _, ok, err := l.Take(t.Context(), "id"); ok || err != nil {
		t.Errorf("a used form is taken for a login: %v, %v", ok, err)
	}
	if first, err := l.Spend(t.Context(), "alice", "other", time.Now().Add(-time.Second)); !first || err != nil {
		t.Errorf("another one: %v, %v", first, err)
	}
	if first, err := l.Spend(t.Context(), "alice", "other", time.Now().Add(time.Hour)); !first || err != nil {
		t.Errorf("one that has expired is still known: %v, %v", first, err)
	}
	for range 2 {
		if err := l.KeepClient(t.Context(), "https://as.example", "https://gate.example/oauth/callback", []byte("client")); err != nil {
			t.Fatal(err)
		}
	}
	got, ok, err := l.Client(t.Context(), "https://as.example", "https://gate.example/oauth/callback")
	if string(got) != "client" || !ok || err != nil {
		t.Errorf("registration: %q, %v, %v", got, ok, err)
	}
	if _, ok, err := l.Client(t.Context(), "https://other.example", "https://gate.example/oauth/callback"); ok || err != nil {
		t.Errorf("of another issuer: %v, %v", ok, err)
	}
	if err := l.KeepClient(t.Context(), "https://as.example", "https://gate.example/oauth/callback", nil); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := l.Client(t.Context(), "https://as.example", "https://gate.example/oauth/callback"); ok {
		t.Error("a registration was not forgotten")
	}
	if err := l.KeepClient(t.Context(), "", "r", []byte("x")); err == nil {
		t.Error("a registration of no issuer is kept")
	}
}
