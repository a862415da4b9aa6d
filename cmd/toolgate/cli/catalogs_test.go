//go:build !windows

package cli

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/fakeserver"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

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
	if _, ok, err := on.Meta().Get(t.Context(), "unheard/dead"); !ok || err != nil {
		t.Errorf("it is not kept that the server was waited for in vain: %v", err)
	}
}
