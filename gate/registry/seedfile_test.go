package registry_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
)

func TestParseSeed(t *testing.T) {
	t.Parallel()
	text := `capabilities:
  - name: gh__delete_repo
    enabled: false
    class: destructive
    risk: high
    high_cost: true
    category: repositories
    tenants: { acme: true }
    deny_personas: [intern]
  - { server: gh, original: get_repo, kind: tool, definition: ` + "AB" + strings.Repeat("0", 62) + ` }
servers:
  - { server: maps, entry: maps, arguments: { zone: eu } }
`
	want := &registry.Seed{
		Entries: []registry.SeedEntry{
			{
				Name: "gh__delete_repo", Enabled: new(false), Class: "destructive", Risk: "high", HighCost: new(true),
				Category: "repositories", Tenants: map[string]bool{"acme": true}, DenyPersonas: []string{"intern"}, At: gate.Rule{File: "seed.yaml", Line: 2, Text: "gh__delete_repo"},
			},
			{Server: "gh", Original: "get_repo", Kind: "tool", Definition: "ab" + strings.Repeat("0", 62), At: gate.Rule{File: "seed.yaml", Line: 10, Text: "get_repo"}},
		},
		Servers: []registry.SeedServer{{Server: "maps", Entry: "maps", Tenant: "default", Arguments: []byte(`{"zone":"eu"}`)}},
	}
	got, err := registry.ParseSeed("seed.yaml", []byte(text))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, seed (-want +got):\n%s", err, diff)
	}
	if empty, err := registry.ParseSeed("seed.yaml", nil); err != nil || len(empty.Entries) != 0 {
		t.Errorf("an empty file: %+v, %v", empty, err)
	}
}

func TestParseSeedRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"capabilities: [{ enabled: true }]":                   "s.yaml:1: the entry names nothing; write name: as clients know it",
		"capabilities: [{ server: a }]":                       "the entry names nothing",
		"capabilities: [{ name: a, server: b }]":              "the entry names two things",
		"capabilities:\n  - { name: a, enable: true }":        "s.yaml:2: capabilities[0].enable: unknown key; write enabled instead",
		"capabilities: [{ name: a, class: nice }]":            `"nice" is not one of read-only, write, destructive`,
		"capabilities: [{ name: a, kind: t }]":                `"t" is not one of`,
		"capabilities: [{ name: a, definition: 12 }]":         "expected text",
		`capabilities: [{ name: a, definition: "12" }]`:       "is not a SHA-256 hash",
		"capabilities: [{ name: a, tenants: { acme: yes } }]": "expected true or false",
		`capabilities: [{ name: a, deny_personas: [""] }]`:    "a persona has no name",
		`capabilities: [{ name: a, tenants: { "": true } }]`:  "a tenant has no name",
		"capabilities: [{ name: a, name: b }]":                "name",
		"servers: [{ server: a }]":                            "servers[0].entry: is required and missing",
		"[]":                                                  "expected a map",
		"":                                                    "",
	} {
		_, err := registry.ParseSeed("s.yaml", []byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := registry.LoadSeed(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "toolgate.registry.seed") {
		t.Errorf("no file: %v", err)
	}
	path := filepath.Join(t.TempDir(), "seed.json")
	if err := os.WriteFile(path, []byte(`{"capabilities":[{"name":"x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := registry.LoadSeed(path); err != nil || len(s.Entries) != 1 || s.Entries[0].At.File != path {
		t.Errorf("JSON: %+v, %v", s, err)
	}
}

func FuzzParseSeed(f *testing.F) {
	f.Add("capabilities: [{ name: a }]")
	f.Add(`{"servers":[{"server":"a","entry":"b","arguments":{}}]}`)
	f.Add("capabilities: [null, {}, 1]")
	f.Add("capabilities: 1")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := registry.ParseSeed("s.yaml", []byte(text))
		if err != nil {
			return
		}
		for i := range s.Entries {
			if c := &s.Entries[i]; c.At.Line < 1 || (c.Name == "") == (c.Original == "") {
				t.Errorf("%+v in line %d", c, c.At.Line)
			}
		}
	})
}
