//go:build !windows

package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/config"
)

// clientFileStates are the states in which the file of a client may be.
var clientFileStates = map[string]func(t *testing.T, h *home, name, text string){
	"absent": func(*testing.T, *home, string, string) {},
	"empty":  func(t *testing.T, h *home, name, _ string) { h.keep(t, name, "", 0o600) },
	"used":   func(t *testing.T, h *home, name, text string) { h.keep(t, name, text, 0o600) },
	"damaged": func(t *testing.T, h *home, name, text string) {
		h.keep(t, name, text[:len(text)/2]+"\x00}]", 0o600)
	},
	"a link": func(t *testing.T, h *home, name, text string) {
		to := h.keep(t, "dotfiles/"+filepath.Base(name), text, 0o600)
		link(t, to, h.keep(t, name, "", 0o600))
	},
	"a link to nothing": func(t *testing.T, h *home, name, _ string) {
		link(t, h.path("nowhere"), h.keep(t, name, "", 0o600))
	},
	"a folder": func(t *testing.T, h *home, name, _ string) {
		if err := os.MkdirAll(h.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	},
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// TestConnectLeavesAClientThatStarts walks every client, every state of its file and
// the configurations that may be there. Afterwards the client's file is as it was, or it
// is read as that client reads it and what it starts answers. States besides the usual
// ones differ by the kind of file alone: without -everything one client of each kind has
// them, and the others have a file that is used and one that is absent.
func TestConnectLeavesAClientThatStarts(t *testing.T) {
	t.Parallel()
	type kind struct {
		ext      string
		own      bool // the file has nothing else
		sections int
	}
	walked := map[kind]bool{}
	for _, c := range clients.All() {
		k := kind{filepath.Ext(c.Files[0].Path), c.Whole, len(c.Section)}
		every := *everything || !walked[k]
		walked[k] = true
		for state, prepare := range clientFileStates {
			if !every && state != "absent" && state != "used" {
				continue
			}
			t.Run(c.Name+"/"+state, func(t *testing.T) {
				t.Parallel()
				if every || state == "used" {
					connectOnce(t, c, prepare, "toolgate.yaml", false)
				}
				if every || state == "absent" {
					connectOnce(t, c, prepare, "toolgate.yaml", true)
				}
				if every && state == "used" {
					connectOnce(t, c, prepare, "its own file", false)
					connectOnce(t, c, prepare, "its own file", true)
					connectOnce(t, c, prepare, "none", false)
					connectOnce(t, c, prepare, "a missing file", true)
				}
			})
		}
	}
}

func connectOnce(t *testing.T, c *clients.Client, prepare func(*testing.T, *home, string, string), from string, only bool) {
	t.Helper()
	h := newHome(t)
	path := c.Files[0].In(clients.Places{Home: h.dir, Config: h.path("config"), Project: h.dir})
	section := ""
	if len(c.Section) > 0 {
		section = c.Section[0]
	}
	prepare(t, h, strings.TrimPrefix(path, h.dir+"/"), strings.ReplaceAll(former[filepath.Ext(path)], "SECTION", section))
	before, had := os.ReadFile(path)
	args := []string{"connect", c.Name, "--scope", c.Files[0].Scope}
	switch from {
	case "toolgate.yaml":
		h.write(t, servers{"a": fake()}, nil)
		if _, err := os.Stat(h.path("toolgate.yaml")); err != nil {
			args = append(args, h.file)
		}
	case "its own file":
		args = append(args, path)
	case "a missing file":
		args = append(args, h.path("missing.yaml"))
	}
	if only {
		args = append(args, "--only")
	}
	o := h.run(t, args...)
	if o.code != exitOK {
		after, err := os.ReadFile(path)
		if string(after) != string(before) || (err == nil) != (had == nil) {
			t.Errorf("%v failed and changed the file:\n%s", args, after)
		}
		if !strings.HasPrefix(o.stderr, "toolgate: ") && !strings.Contains(o.stderr, "\ntoolgate: ") || strings.Contains(o.stdout, "is connected") {
			t.Errorf("%v: %+v", args, o)
		}
		return
	}
	if from == "none" || from == "a missing file" {
		t.Errorf("%v: connected to nothing: %+v", args, o)
	}
	// toolgate skips an entry that starts it. Under another name it is like any other.
	const other, entryName = "/usr/bin/other", "gateway"
	text := strings.NewReplacer(program, other, plain, other, "toolgate.yaml", "toolgate.yaml", clients.Entry, entryName).Replace(h.text(t, path))
	copied := h.keep(t, "copy/"+filepath.Base(path), text, 0o600)
	read, err := config.Load(copied, config.Options{Raw: true})
	if err != nil {
		t.Errorf("%v: %v", args, err)
		return
	}
	i := slices.IndexFunc(read.Servers, func(s config.Server) bool { return s.Key == entryName })
	if i < 0 {
		t.Errorf("%v: there is no entry", args)
		return
	}
	entry := read.Servers[i].Written
	wanted := []string{"stdio", entry.Args[min(1, len(entry.Args)-1)]}
	if c.Name == "cursor" || c.Name == "cline" { // which refuse a part of JSON Schema
		wanted = append(wanted, "--view", "strict")
	}
	if entry.Command != other || !slices.Equal(entry.Args, wanted) || !filepath.IsAbs(wanted[1]) {
		t.Errorf("%v: it starts %s %q", args, entry.Command, entry.Args)
		return
	}
	h.light = true // what is started is the same for every client
	if got := h.runWith(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", entry.Args...); got.code != exitOK || !strings.Contains(got.stdout, `"result":{}`) {
		t.Errorf("%v: what it starts says %+v", args, got)
	}
}
