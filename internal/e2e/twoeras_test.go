//go:build e2e && unix

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/e2e/fixture"
)

// twoEras are servers of both eras, made with four libraries, by the way in which
// they are started; their calls ask in the way of the era of the caller, and those
// with fixture.DirectPrefix always while they work.
var twoEras = []struct {
	name    string
	program func() installed
	command func(t *testing.T) []string // on stdio
}{
	{"typescript-sdk-2", nodeNeeded, func(*testing.T) []string {
		return []string{lab.node.path, filepath.Join(lab.cache, "node", "server_new.mjs"), "stdio"}
	}},
	{"python-sdk", pyNeeded, func(*testing.T) []string {
		return []string{lab.python.path, filepath.Join(lab.root, "internal", "e2e", "python", "server_sdk.py"), "stdio"}
	}},
	{"fastmcp", pyNeeded, func(*testing.T) []string {
		return []string{lab.python.path, filepath.Join(lab.root, "internal", "e2e", "python", "server_fast.py"), "stdio"}
	}},
	{"go-sdk", none, func(t *testing.T) []string { return []string{built(t, lab.fixture), "-ask"} }},
}

// TestServersOfTwoEras holds toolgate, which is told nothing of the era, to what a
// client of each era has of such a server directly: what is answered there is
// answered through toolgate, with the same text.
func TestServersOfTwoEras(t *testing.T) {
	built(t, lab.toolgate)
	for _, s := range twoEras {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(s.name+"/"+transport, func(t *testing.T) {
				t.Parallel()
				if p := s.program(); p.err != nil {
					need(t, p)
				}
				entry, direct := object{}, target{Transport: transport}
				if transport == "stdio" {
					command := s.command(t)
					entry["command"], entry["args"] = command[0], command[1:]
					direct.Command, direct.Args, direct.Env = command[0], command[1:], map[string]string{"PATH": "/usr/bin:/bin"}
				} else {
					direct.URL = askerNamed(t, s.name)
					entry["type"], entry["url"] = "http", direct.URL
				}
				g := startGateway(t, object{"s": entry}, object{"servers": object{"s": object{
					"client_requests": object{"sampling": "allow", "elicitation": "allow", "roots": "allow"},
				}}}, "s__form")
				// Whoever comes second finds a server that is in use in the other era.
				for _, era := range []string{"legacy", "modern", "legacy"} {
					reference := askAll(t, direct, era, "")
					through := askAll(t, target{Transport: "http", URL: g.mcp}, era, "s__")
					for name, want := range reference {
						got := through[name]
						got.Text = strings.ReplaceAll(got.Text, "[s] ", "")
						switch {
						case want.Error == "" && got != want:
							t.Errorf("%s client, %s: %+v, directly %+v", era, name, got, want)
						case want.Error != "" && era == "legacy":
							t.Errorf("%s client, %s fails directly: %s", era, name, want.Error)
						}
					}
				}
			})
		}
	}
}

// askerNamed starts the asking server of a library over HTTP.
func askerNamed(t *testing.T, name string) string {
	t.Helper()
	for _, a := range askers {
		if a.name == name {
			return start(t, "asking server "+name, a.command(t)).waitFor(t, urlLine, 30*time.Second)
		}
	}
	t.Fatalf("there is no asking server %q", name)
	return ""
}

// askAll calls everything that asks, as a client of an era that answers all.
func askAll(t *testing.T, to target, era, prefix string) map[string]returned {
	t.Helper()
	to.Era, to.person = era, &person{secret: "secret"}
	c, err := dialGoSDK(t.Context(), to)
	if err != nil {
		t.Fatalf("%s client of %v: %v", era, to, err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Logf("closing: %v", err)
		}
	}()
	all := map[string]returned{}
	for _, q := range fixture.Questions {
		for _, name := range []string{q.Name, fixture.DirectPrefix + q.Name} {
			got, err := c.Call(t.Context(), prefix+name, fmt.Sprintf(`{"canary":%q}`, "c"), nil)
			all[name] = returned{Text: got.Text}
			if err != nil {
				all[name] = returned{Error: err.Error()}
			}
		}
	}
	return all
}
