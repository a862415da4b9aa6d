//go:build !windows

package daemon_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

func text(t *testing.T, c *lineclient.Client, tool, arguments string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := c.Request(ctx, mcp.MethodToolsCall, []byte(`{"name":"`+tool+`","arguments":`+arguments+`}`))
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	content := mcp.Lookup(result, "content")
	for e := range mcp.Elements(content) {
		if s, ok := mcp.LookupString(e.Of(content), "text"); ok {
			return s
		}
	}
	t.Fatalf("%s: no text in %s", tool, result)
	return ""
}

func states(r *running) map[string]string {
	out := make(map[string]string)
	for _, s := range r.Servers() {
		out[s.Name] = s.State
	}
	return out
}

func TestReload(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"same": fake("one"), "changed": fake("one"), "removed": fake("one")}, nil)
	r := h.newRunning(t)
	client := r.client(t)
	pids := map[string]string{}
	for name := range states(r) {
		pids[name] = text(t, client, name+"__pid", "{}")
	}

	// A call that is in flight on a server when that is removed.
	began, goOn := h.path("began"), h.path("go-on")
	answer := make(chan string, 1)
	caller := r.client(t)
	go func() { // ends with the call
		result, err := caller.Request(t.Context(), mcp.MethodToolsCall,
			[]byte(`{"name":"removed__slow","arguments":{"file":"`+began+`","wait":"`+goOn+`"}}`))
		answer <- string(result)
		if err != nil {
			t.Errorf("call in flight: %v", err)
		}
	}()
	testwait.Until(t, patience, "the call is at the server", func() bool { _, err := os.Stat(began); return err == nil })

	h.write(t, servers{"same": fake("one"), "changed": fake("two"), "added": fake("one")}, nil)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	if diff := cmp.Diff(map[string]string{"same": "ready", "changed": "ready", "added": "ready"}, states(r)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if got := text(t, client, "same__pid", "{}"); got != pids["same"] {
		t.Errorf("an equal server was started anew: %s, then %s", pids["same"], got)
	}
	if got := text(t, client, "changed__pid", "{}"); got == pids["changed"] {
		t.Errorf("a changed server goes on as process %s", got)
	}
	if _, err := client.Request(t.Context(), mcp.MethodToolsCall, []byte(`{"name":"removed__pid"}`)); err == nil {
		t.Error("a removed server takes new calls")
	}
	removed, _ := strconv.Atoi(pids["removed"])
	if !alive(removed) {
		t.Error("a removed server ended before its call")
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := testwait.Receive(t, patience, "the call is answered", answer); !strings.Contains(got, "waited") {
		t.Errorf("call in flight: %s", got)
	}
	for _, name := range []string{"removed", "changed"} {
		pid, _ := strconv.Atoi(pids[name])
		testwait.Until(t, patience, "the old process of "+name+" has ended", func() bool { return !alive(pid) })
	}
	if err := r.End(); err != nil {
		t.Errorf("run: %v", err)
	}
	same, _ := strconv.Atoi(pids["same"])
	if alive(same) {
		t.Error("a process is left")
	}
}

func TestAutomaticReloadStartsAndChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one"), "b": fake("one"), "c": fake("one")}, nil)
	r := h.newRunning(t)
	client := r.client(t)
	a, b := text(t, client, "a__pid", "{}"), text(t, client, "b__pid", "{}")

	other := fake("one")
	other["env"] = map[string]string{"X": "y"}
	h.write(t, servers{"a": fake("two"), "b": other, "new": fake("one")},
		map[string]any{"servers": map[string]any{"a": map[string]any{"namespace": "aa"}}, "audit": map[string]any{"mode": "required"}})
	got, err := r.TakeFile(false)
	if err != nil {
		t.Fatal(err)
	}
	want := admin.Reloaded{
		File: h.file, Applied: []string{"server a: namespace", "server c: removed"},
		Pending: []string{"server a: args", "server b: env", "server new: start"}, AtNextStart: []string{"audit.mode"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reloaded (-want +got):\n%s", diff)
	}
	// What is only shown otherwise, and what goes away, does so at once.
	if got := text(t, client, "aa__pid", "{}"); got != a {
		t.Errorf("a was started anew: %s, then %s", a, got)
	}
	if got := text(t, client, "b__pid", "{}"); got != b {
		t.Errorf("b was started anew: %s, then %s", b, got)
	}
	shown := map[string][]string{}
	for _, s := range r.Servers() {
		shown[s.Name+" "+s.State] = s.Pending
		if s.Pending != nil && !strings.Contains(s.Reason, "toolgate reload") {
			t.Errorf("%s: the reason %q does not say what to do", s.Name, s.Reason)
		}
	}
	if diff := cmp.Diff(map[string][]string{"a ready": {"args"}, "b ready": {"env"}, "new pending": {"start"}}, shown); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}

	// The same file once more is no other result; a person's wish is.
	if again, err := r.TakeFile(false); err != nil || !slices.Equal(again.Pending, want.Pending) || len(again.Applied) != 0 {
		t.Errorf("again: %v, %v", again, err)
	}
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	if diff := cmp.Diff(map[string]string{"a": "ready", "b": "ready", "new": "ready"}, states(r)); diff != "" {
		t.Errorf("after a reload that was asked for (-want +got):\n%s", diff)
	}
	if got := text(t, client, "aa__pid", "{}"); got == a {
		t.Error("a goes on with its old arguments")
	}
	if slices.ContainsFunc(r.Servers(), func(s admin.Server) bool { return s.Pending != nil }) {
		t.Error("something waits still")
	}
}

func TestReloadOfABrokenFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	r := h.newRunning(t)
	client := r.client(t)
	pid := text(t, client, "a__pid", "{}")
	for name, broken := range map[string]string{
		"no JSON":      `{ "mcpServers": [ }`,
		"unknown key":  `{"mcpServers":{},"toolgate":{"lisen":{}}}`,
		"not open":     `{"mcpServers":{},"toolgate":{"auth":{"keys":[{"id":"a","subject":"a","sha256":"` + strings.Repeat("0", 64) + `"}]}}}`,
		"turns to ask": `{"mcpServers":{},"toolgate":{"gate":{"open":true},"auth":{"keys":[{"id":"a","subject":"a","sha256":"` + strings.Repeat("0", 64) + `"}]}}}`,
		"not here yet": `{"mcpServers":{},"toolgate":{"redis":"localhost:6379"}}`,
	} {
		h.writeText(t, broken)
		_, err := r.Reload()
		var coded *failure.Error
		if !errors.As(err, &coded) || coded.Kind != failure.Config || !strings.Contains(err.Error(), "toolgate.yaml") {
			t.Errorf("%s: %v", name, err)
		}
		if got := text(t, client, "a__pid", "{}"); got != pid {
			t.Errorf("%s: the old configuration does not go on", name)
		}
	}
	if err := os.Remove(h.file); err != nil {
		t.Fatal(err)
	}
	if _, err := r.TakeFile(false); err == nil {
		t.Error("no file at all was applied")
	}
	if diff := cmp.Diff(map[string]string{"a": "ready"}, states(r)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func TestReloadsDoNotMix(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	all, want := servers{}, map[string]string{}
	h.write(t, all, nil)
	r := h.newRunning(t)
	for round := range 30 {
		name := "s" + strconv.Itoa(round)
		all[name], want[name] = map[string]any{"command": "x", "disabled": true}, "disabled"
		h.write(t, all, nil)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if _, err := r.TakeFile(i == 2); err != nil {
					t.Error(err)
				}
				_ = r.Servers()
			})
		}
		wg.Wait()
		// Whatever the order, what a person asked for is not taken back.
		if diff := cmp.Diff(want, states(r)); diff != "" {
			t.Fatalf("servers in round %d (-want +got):\n%s", round, diff)
		}
	}
}

func TestReloadOfKeys(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, withKeys("alice", "bob"))
	r := h.newRunning(t)
	admitted := func() []string {
		var out []string
		for _, key := range []string{"alice", "bob", "carol"} {
			_, lineErr := r.Identities.Identity(t.Context(), key)
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			q.RemoteAddr = "127.0.0.1:9"
			q.Header.Set("Authorization", "Bearer "+key)
			if _, err := r.Identities.Authenticate(q); (err == nil) != (lineErr == nil) {
				t.Errorf("%s: over HTTP %v, over a line %v", key, err, lineErr)
			}
			if lineErr == nil {
				out = append(out, key)
			}
		}
		return out
	}
	steps := []struct {
		name   string
		keys   []string
		manual bool
		want   []string
	}{
		{"at first", []string{"alice", "bob"}, true, []string{"alice", "bob"}},
		{"a removed key is out at once, a new one waits", []string{"alice", "carol"}, false, []string{"alice"}},
		{"a person lets the new one in", []string{"alice", "carol"}, true, []string{"alice", "carol"}},
		{"all removed: no file does that", nil, false, []string{"alice", "carol"}},
	}
	for _, s := range steps {
		h.write(t, servers{}, withKeys(s.keys...))
		if _, err := r.TakeFile(s.manual); (err != nil) != (s.keys == nil) {
			t.Errorf("%s: %v", s.name, err)
		}
		if diff := cmp.Diff(s.want, admitted()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
	}
	// Without keys everyone would be let in, which takes a new start.
	if _, err := r.TakeFile(true); err == nil {
		t.Error("authentication was switched off")
	}
	if diff := cmp.Diff([]string{"alice", "carol"}, admitted()); diff != "" {
		t.Errorf("at last (-want +got):\n%s", diff)
	}
	if id, err := r.Identities.Identity(t.Context(), ""); err == nil {
		t.Errorf("no key is %v", id)
	}
}

func TestIdentityWithoutKeys(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, nil)
	r := h.newRunning(t)
	for _, key := range []string{"", "anything"} {
		if id, err := r.Identities.Identity(t.Context(), key); err != nil || id.Principal != gate.Local {
			t.Errorf("%q: %v, %v", key, id, err)
		}
	}
}

func TestSecondInstanceSaysWhoHoldsTheStore(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, nil)
	r := h.newRunning(t)
	_, err := daemon.New(t.Context(), r.Opts, r.Current(), r.State, "")
	var busy *store.InUseError
	var coded *failure.Error
	if !errors.As(err, &busy) || busy.PID != os.Getpid() || !errors.As(err, &coded) || coded.Kind != failure.Unreachable {
		t.Errorf("a second instance: %v", err)
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	again, err := daemon.New(t.Context(), r.Opts, r.Current(), r.State, "")
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	again.Close()
	again.Close() // twice does no harm
}

func TestNewInstanceFaults(t *testing.T) {
	t.Parallel()
	for name, toolgate := range map[string]map[string]any{
		"the key a":     {"keys": []any{map[string]any{"id": "a", "env": "UNSET_SEAL_KEY"}}},
		"needs the SHA": {"auth": map[string]any{"keys": []any{map[string]any{"id": "a", "sha256": sum("a"), "subject": "a"}}}},
	} {
		h := newHome(t)
		h.write(t, servers{}, toolgate)
		c, err := daemontest.Read(h.file)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Toolgate.Auth.Keys) > 0 {
			c.Toolgate.Auth.Keys[0].SHA256 = "short"
		}
		state := &statedir.Dir{Path: h.dir}
		if _, err := daemon.New(t.Context(), daemontest.Options(), c, state, ""); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		// Nothing that was opened on the way is kept.
		s, err := store.Open(t.Context(), store.Options{Path: h.path("store.db")})
		if err != nil {
			t.Errorf("%s: the store is held: %v", name, err)
			continue
		}
		s.Close()
	}
}
