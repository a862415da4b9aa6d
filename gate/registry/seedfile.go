package registry

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store"
)

// Seed is what an operator writes, in a file of its own, about capabilities before
// they are seen. It is not changed once made.
type Seed struct {
	// Rules for single tools, prompts, resources and templates. Default: none.
	Entries []SeedEntry `config:"capabilities"`
	// Servers of the operator's list that exist from the start, for everyone. Default: none.
	Servers []SeedServer `config:"servers"`
}

// SeedEntry is about one capability. It is named by name, or by server and original.
type SeedEntry struct {
	// Exposed name or URI. Required unless server and original are set.
	Name string `config:"name"`
	// Key of the server. Required unless name is set.
	Server string `config:"server"`
	// Name or URI at the server. Required unless name is set.
	Original string `config:"original"`
	// Kind of the capability. Default: any kind with this name.
	Kind string `config:"kind" enum:"tool|prompt|resource|template"`
	// Enables or disables it. Default: registry.default.
	Enabled *bool `config:"enabled"`
	// Title for people. Default: the server's title.
	DisplayName string `config:"display_name"`
	// A word to group capabilities by. Default: none.
	Category string `config:"category"`
	// What it does. Default: unknown, which counts as destructive.
	Class string `config:"class" enum:"read-only|write|destructive"`
	// Risk of a call. Default: depends on the class.
	Risk string `config:"risk" enum:"low|medium|high"`
	// Marks an expensive capability, which mode DEGRADED refuses. Default: false.
	HighCost *bool `config:"high_cost"`
	// SHA-256 of the only definition that is accepted; see [Hash]. Default: the first definition is accepted.
	Definition string `config:"definition" format:"sha256"`
	// Enables or disables it for single tenants. Default: none.
	Tenants map[string]bool `config:"tenants"`
	// Personas that may not use it. Default: none.
	DenyPersonas []string `config:"deny_personas"`
	// Personas that may use it and, of its kind, nothing else that does not name them. Default: none.
	AllowPersonas []string `config:"allow_personas"`

	At gate.Rule `config:"-"` // where it is written
}

// SeedServer is a server of the operator's list.
type SeedServer struct {
	// Key that the server gets. Required.
	Server string `config:"server" required:"true"`
	// Its entry in the list. Required.
	Entry string `config:"entry" required:"true"`
	// Tenant that owns it. Default: default.
	Tenant string `config:"tenant" default:"default"`
	// Values for the placeholders of the entry. Default: none.
	Arguments json.RawMessage `config:"arguments" format:"object"`
}

// LoadSeed reads and checks a seed file, YAML, TOML or JSON by its name. The
// error joins every fault found, each an *[tree.Error].
func LoadSeed(path string) (*Seed, error) {
	data, err := format.ReadFile(path)
	if err != nil {
		return nil, &tree.Error{File: path, Problem: "the seed file cannot be read: " + err.Error(), Hint: "name an existing one under toolgate.registry.seed", Err: err}
	}
	return ParseSeed(path, data)
}

// ParseSeed reads and checks the contents of a seed file of the given name.
func ParseSeed(path string, data []byte) (*Seed, error) {
	p := &tree.Problems{File: path}
	root := format.Read(p, path, data)
	if root == nil {
		return nil, p.Err()
	}
	seed := &Seed{}
	decode.New(p, filepath.Dir(path)).Decode(root, seed, "registry.seed")
	for i := range seed.Entries {
		e, n := &seed.Entries[i], root.Get("capabilities").Items[i]
		e.At = gate.Rule{File: path, Line: n.Line, Text: e.Name + e.Original}
		e.check(p, n)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return seed, seed.Check()
}

// check refuses an entry whose subject is unclear.
func (e *SeedEntry) check(p *tree.Problems, n *tree.Node) {
	const hint = "write name: as clients know it, or server: and original:"
	switch {
	case e.Name == "" && (e.Server == "" || e.Original == ""):
		p.At(n, "", hint, "the entry names nothing")
	case e.Name != "" && (e.Server != "" || e.Original != ""):
		p.At(n, "", hint, "the entry names two things")
	}
	for tenant := range e.Tenants {
		if tenant == "" {
			p.At(n, "tenants", "", "a tenant has no name")
		}
	}
	for key, personas := range map[string][]string{"deny_personas": e.DenyPersonas, "allow_personas": e.AllowPersonas} {
		if slices.Contains(personas, "") {
			p.At(n, key, "", "a persona has no name")
		}
	}
}

// Classes of a capability, as people write them.
const (
	ClassReadOnly    = "read-only"
	ClassWrite       = "write"
	ClassDestructive = "destructive"
)

// Class converts the operator's settings; an empty word says nothing.
func Class(word, risk string, highCost *bool) store.Class {
	c := store.Class{Risk: risk, HighCost: highCost}
	switch word {
	case ClassReadOnly:
		c.ReadOnly, c.Destructive = new(true), new(false)
	case ClassWrite:
		c.ReadOnly, c.Destructive = new(false), new(false)
	case ClassDestructive:
		c.ReadOnly, c.Destructive = new(false), new(true)
	}
	return c
}
