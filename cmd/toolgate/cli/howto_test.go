//go:build !windows

package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
)

// shBlocks are the commands in the sh blocks of a page, in order.
func shBlocks(page string) []string {
	var out []string
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "```sh":
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside && line != "" && !strings.HasPrefix(line, "#"):
			out = append(out, line)
		}
	}
	return out
}

// installed is a home in which toolgate is installed, for commands of a page.
func installed(t *testing.T) *home {
	t.Helper()
	h := newHome(t)
	h.file = h.path("work/toolgate.yaml")
	if err := os.MkdirAll(h.path("bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.path("work"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, h.path("bin/toolgate")); err != nil {
		t.Fatal(err)
	}
	h.env["PATH"] = h.path("bin") + ":" + os.Getenv("PATH")
	return h
}

// shell runs one command of a page as a person in the folder work would.
func (h *home) shell(t *testing.T, command string) outcome {
	t.Helper()
	env := make([]string, 0, len(h.env))
	for _, name := range slices.Sorted(maps.Keys(h.env)) {
		env = append(env, name+"="+h.env[name])
	}
	return runShell(t, h.path("work"), env, command)
}

// Every command of every client's page does what it says, and at the end the file
// is as it was.
func TestClientPages(t *testing.T) {
	t.Parallel()
	for _, c := range clients.All() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "clients", c.Name+".md"))
			if err != nil {
				t.Fatal(err)
			}
			h := installed(t)
			h.env["TOOLGATE_LISTEN_HTTP"] = "127.0.0.1:7777" // named, and not listened on
			h.write(t, servers{"notes": fake()}, nil)
			h.keep(t, "work/toolgate.yaml", h.text(t, h.path("toolgate.yaml")), 0o600)
			if o := h.shell(t, "toolgate trust"); o.code != exitOK {
				t.Fatalf("%+v", o)
			}
			commands := shBlocks(string(page))
			if len(commands) < 4 {
				t.Fatalf("the page has the commands %v", commands)
			}
			for _, command := range commands {
				if strings.Contains(command, " lint ") {
					h.env["TOOLGATE_LISTEN_HTTP"] = "" // it starts a gateway of its own
				}
				o := h.shell(t, command)
				if o.code != exitOK {
					t.Errorf("%s: %+v", command, o)
				}
			}
			for _, f := range c.Files {
				path := f.In(clients.Places{Home: h.dir, Config: h.path("config"), Project: h.path("work")})
				if text, err := os.ReadFile(path); err == nil {
					t.Errorf("%s is left: %s", path, text)
				}
			}
		})
	}
}
