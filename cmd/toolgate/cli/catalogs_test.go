//go:build !windows

package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/cmd/toolgate/fakeserver"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream"
)

// openSaver opens what an ended gateway of the home has left.
func openSaver(t *testing.T, h *home) *daemon.CatalogSaver {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: h.path("state/store.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }() // ends with the cleanup
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	})
	keys, err := (&statedir.Dir{Path: h.path("state")}).Keyring(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &daemon.CatalogSaver{Store: s, Keys: keys, Log: slog.New(slog.DiscardHandler), Saved: make(map[string]*mcp.Listing), Wake: make(chan struct{}, 1)}
}

func specOf(t *testing.T, h *home, key string) upstream.Spec {
	t.Helper()
	c, err := (&options{}).readConfig(h.file)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := c.Server(key)
	if !ok {
		t.Fatalf("no server %s", key)
	}
	return build.UpstreamSpec(&s, c, false)
}

func TestCatalogsAreGenuineOrNotServed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one"), "b": fake("one")}, nil)
	r := h.newRunning(t)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	c := openSaver(t, h)
	a, b := specOf(t, h, "a"), specOf(t, h, "b")
	kept := c.Load(t.Context(), &a, "")
	if kept == nil {
		t.Fatal("nothing was saved")
	}
	for i, want := range fakeserver.Tools {
		if got := kept.Items[mcp.Tool][i].Raw; string(got) != want {
			t.Errorf("tool %d\n got %s\nwant %s", i, got, want)
		}
	}
	good, ok, err := c.Store.Catalogs().Load(t.Context(), "a", daemon.CredentialKey, a.Hash())
	if err != nil || !ok {
		t.Fatalf("load: %v, %v", ok, err)
	}
	changed := a
	changed.Args = append([]string{}, append(changed.Args, "more")...)
	foreign, err := seal.NewKeyring(seal.Key{ID: "local", Secret: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	resign := func(keys *seal.Keyring, purpose string, r *store.CatalogRecord) {
		r.MAC = keys.MAC(purpose, daemon.Authenticated(r))
	}
	tests := []struct {
		name   string
		spec   *upstream.Spec
		change func(*store.CatalogRecord)
		served bool
	}{
		{"as it was", &a, func(*store.CatalogRecord) {}, true},
		{"signed anew", &a, func(r *store.CatalogRecord) { resign(c.Keys, daemon.CatalogPurpose, r) }, true},
		{"one byte of the body", &a, func(r *store.CatalogRecord) {
			r.Body = bytes.Replace(r.Body, []byte("Wait for"), []byte("Obey the"), 1)
		}, false},
		{"no MAC", &a, func(r *store.CatalogRecord) { r.MAC = nil }, false},
		{"short MAC", &a, func(r *store.CatalogRecord) { r.MAC = r.MAC[:16] }, false},
		{"one bit of the MAC", &a, func(r *store.CatalogRecord) { r.MAC = append([]byte{r.MAC[0] ^ 1}, r.MAC[1:]...) }, false},
		{"of another server", &b, func(r *store.CatalogRecord) { r.Server, r.Spec = "b", b.Hash() }, false},
		{"of another specification", &changed, func(r *store.CatalogRecord) { r.Spec = changed.Hash() }, false},
		{"made younger", &a, func(r *store.CatalogRecord) { r.SavedAt = r.SavedAt.Add(time.Hour) }, false},
		{"with an unknown key", &a, func(r *store.CatalogRecord) { resign(foreign, daemon.CatalogPurpose, r) }, false},
		{"for another purpose", &a, func(r *store.CatalogRecord) { resign(c.Keys, "audit", r) }, false},
		{"genuine and no catalog", &a, func(r *store.CatalogRecord) { r.Body = []byte("{"); resign(c.Keys, daemon.CatalogPurpose, r) }, false},
		{"genuine and 31 days old", &a, func(r *store.CatalogRecord) {
			r.SavedAt = time.Now().Add(-31 * 24 * time.Hour)
			resign(c.Keys, daemon.CatalogPurpose, r)
		}, false},
	}
	for _, tt := range tests {
		record := good
		tt.change(&record)
		if err := c.Store.Catalogs().Delete(t.Context(), record.Server); err != nil {
			t.Fatal(err)
		}
		if err := c.Store.Catalogs().Save(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if l := c.Load(t.Context(), tt.spec, ""); (l != nil) != tt.served {
			t.Errorf("%s: served %v, want %v", tt.name, l != nil, tt.served)
		}
	}
	if l := c.Load(t.Context(), &changed, ""); l != nil {
		t.Error("a catalog of other arguments is served")
	}
}

func TestAuthenticatedIsInjective(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	seen := map[string]store.CatalogRecord{}
	for _, r := range []store.CatalogRecord{
		{Server: "ab", Credential: "c", SavedAt: now},
		{Server: "a", Credential: "bc", SavedAt: now},
		{Server: "a", Credential: "b", Spec: "c", SavedAt: now},
		{Server: "a", Credential: "b", Body: []byte("c"), SavedAt: now},
		{Server: "ab", Credential: "c", SavedAt: now.Add(1)},
	} {
		key := string(daemon.Authenticated(&r))
		if other, ok := seen[key]; ok {
			t.Errorf("%+v and %+v have the same bytes", r, other)
		}
		seen[key] = r
	}
}

// A gateway that ends right after it has heard of a server saves its catalog.
func TestTheEndSaves(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	r := h.newRunning(t)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	c := openSaver(t, h)
	if err := c.Store.Catalogs().Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(over, r.Daemon); err != nil {
		t.Fatal(err)
	}
	if a := specOf(t, h, "a"); c.Load(t.Context(), &a, "") == nil {
		t.Error("nothing was saved")
	}
}

// A catalog that could not be saved is tried again; what was saved is not.
func TestSaveIsTriedAgain(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	r := h.newRunning(t)
	list := r.List()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	c := openSaver(t, h)
	if err := c.Store.Catalogs().Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	a := specOf(t, h, "a")
	open := c.Store
	c.Store = nil // refuses everything
	c.Save(t.Context(), list)
	c.Store = open
	if c.Load(t.Context(), &a, "") != nil {
		t.Fatal("saved although it could not be")
	}
	c.Save(t.Context(), list)
	first, ok, err := c.Store.Catalogs().Load(t.Context(), "a", daemon.CredentialKey, a.Hash())
	if err != nil || !ok {
		t.Fatalf("not saved the second time: %v", err)
	}
	c.Save(t.Context(), list)
	again, _, err := c.Store.Catalogs().Load(t.Context(), "a", daemon.CredentialKey, a.Hash())
	if err != nil || !first.SavedAt.Equal(again.SavedAt) {
		t.Errorf("saved twice: %v and %v, %v", first.SavedAt, again.SavedAt, err)
	}
}

// tools returns the tools of a list, as clients receive them.
func toolsOf(t *testing.T, url string) []byte {
	t.Helper()
	status, body := post(t, newClient(t), url, "", mcp.MethodToolsList, "", "")
	tools := mcp.Lookup(body, "result", "tools")
	if status != 200 || tools == nil {
		t.Fatalf("tools/list: %d %s", status, body)
	}
	return tools
}

func TestListsAcrossARestart(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	broken := h.path("broken")
	h.write(t, servers{"a": fake("broken=" + broken), "B.b": fake("long=60")}, nil)
	first, url := h.up(t)
	want := toolsOf(t, url)
	for _, raw := range []string{`"x-own": 9007199254740993`, "a__pid", "b-b__ll"} {
		if !bytes.Contains(want, []byte(raw)) {
			t.Errorf("%s is not in %s", raw, want)
		}
	}
	if code := first.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	second, url := h.up(t)
	if got := toolsOf(t, url); !bytes.Equal(got, want) {
		t.Errorf("after a restart\n got %s\nwant %s", got, want)
	}
	second.stop(t, syscall.SIGTERM)

	// The server does not start any more: its last list is served, and said to
	// be that.
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	third, url := h.up(t)
	if got := toolsOf(t, url); !bytes.Equal(got, want) {
		t.Errorf("of a broken server\n got %s\nwant %s", got, want)
	}
	if s := h.servers(t)["a"]; s.State != "stale" || !s.Stale || s.Tools != len(fakeserver.Tools) || !strings.Contains(s.Reason, "broken") {
		t.Errorf("%+v", s)
	}
	third.stop(t, syscall.SIGTERM)

	// Another key: nothing of before is genuine.
	seals, err := os.ReadDir(h.path("state"))
	if err != nil || len(seals) != 1 {
		t.Fatalf("%v, %v", seals, err)
	}
	if err := os.Remove(h.path("state/" + seals[0].Name() + "/seal.key")); err != nil {
		t.Fatal(err)
	}
	_, url = h.up(t)
	if got := toolsOf(t, url); bytes.Contains(got, []byte("a__")) {
		t.Errorf("with another key: %s", got)
	}
	if s := h.servers(t)["a"]; s.State != "failed" || s.Tools != 0 {
		t.Errorf("with another key: %+v", s)
	}
}

// A server that is silent holds the first lists of one start, and of no start after
// that, as long as it is configured as it was.
func TestSilentServerIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"dead": fake("hang"), "live": fake("one")}, nil)
	p := h.start(t, "up", h.file)
	url := p.says(t, p.out, `(https?://\S+)/mcp `)[1]
	if !bytes.Contains(toolsOf(t, url), []byte("live__pid")) {
		t.Error("the first list does not have what the other server lists")
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	folders, err := os.ReadDir(h.path("state"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("%v, %v", folders, err)
	}
	on, err := store.Open(t.Context(), store.Options{Path: h.path("state/" + folders[0].Name() + "/store.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- on.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	if _, ok, err := on.Meta().Get(t.Context(), daemon.UnheardKey("dead")); !ok || err != nil {
		t.Errorf("it is not kept that the server was waited for in vain: %v", err)
	}
	kept, spec := daemon.NewUnheard(on.Meta(), slog.New(slog.DiscardHandler)), upstream.Spec{Key: "mute", Command: "mute"}
	if kept.Was(t.Context(), &spec) {
		t.Error("a server that was never started is not waited for")
	}
	kept.Missed(t.Context(), []upstream.Spec{spec})
	if !kept.Was(t.Context(), &spec) {
		t.Error("the next start waits for it")
	}
	if spec.Args = []string{"other"}; kept.Was(t.Context(), &spec) {
		t.Error("it is not waited for as another one")
	}
}
