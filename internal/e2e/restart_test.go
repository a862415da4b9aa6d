//go:build e2e && unix

package e2e

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// TestRestart stops toolgate and its server, and starts toolgate alone: the last
// good list is the first answer, a call says that its server is gone, and works
// again once it is back, without anything being done to toolgate.
func TestRestart(t *testing.T) {
	fixtureCommand := func(t *testing.T, addr string) (*process, string) {
		p := start(t, "fixture", exec.Command(built(t, lab.fixture), "-http", addr, "-era", "legacy"))
		return p, p.waitFor(t, urlLine, 10*time.Second)
	}
	server, url := fixtureCommand(t, "127.0.0.1:0")
	addr := url[len("http://") : len(url)-len("/mcp")]
	s := newSetup(t, object{"fix": object{"type": "http", "url": url}}, nil)
	want := fixtureTools("fix")

	first := s.up(t)
	first.waitTools(t, "", want...)
	before, err := (&raw{url: first.mcp}).call(t.Context(), "tools/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	first.proc.stop(t)
	if first.proc.err != nil {
		t.Errorf("toolgate up, ended by SIGTERM: %v, want exit code 0", first.proc.err)
	}
	server.stop(t)

	second := s.up(t)
	c := &raw{url: second.mcp}
	names, err := c.toolNames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !containsAll(names, want) {
		t.Errorf("the first list after a restart, without the server, is %q, want all of %q", names, want)
	}
	after, err := c.call(t.Context(), "tools/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Errorf("the list differs after a restart:\n%s\n%s", before, after)
	}
	timed(t, "calling a server that is gone", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), rawTimeout)
		defer cancel()
		if text, err := c.callTool(ctx, "fix__echo", object{}); err == nil {
			t.Errorf("a call without its server returned %q", text)
		} else if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call without its server: %v", err)
		}
		return nil
	})

	fixtureCommand(t, addr)
	var text string
	if !testwait.Within(15*time.Second, func() bool {
		text, err = c.callTool(t.Context(), "fix__echo", object{"back": true})
		return err == nil
	}) {
		t.Fatalf("the server is back, and a call still fails: %v", err)
	}
	if text != `{"back":true}` {
		t.Errorf("fix__echo returned %q", text)
	}
	if names, err = c.toolNames(t.Context()); err != nil || !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(want))) {
		t.Errorf("once the server is back the list is %q (%v), want %q", names, err, want)
	}
}
