package registry

import (
	"encoding/json"
	"path/filepath"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store"
)

// Seed is what an operator writes, in a file of its own, about capabilities before
// they are seen. It is not changed once made.
type Seed struct {
	// Entries are rules about single tools, prompts, resources and templates. Absent: none.
	Entries []SeedEntry `config:"capabilities"`
	// Servers are servers of the operator's list that there are from the beginning, for everyone. Absent: none.
	Servers []SeedServer `config:"servers"`
}

// SeedEntry is about one capability. It is named by name, or by server and original.
type SeedEntry struct {
	// Name is the name or URI that clients know. Absent: see server and original.
	Name string `config:"name"`
	// Server is the key of its server. Absent: see name.
	Server string `config:"server"`
	// Original is its name or URI at the server. Absent: see name.
	Original string `config:"original"`
	// Kind is what it is. Absent: any kind that has the name.
	Kind string `config:"kind" enum:"tool|prompt|resource|template"`
	// Enabled switches it on or off. Absent: as registry.default says.
	Enabled *bool `config:"enabled"`
	// DisplayName is a title for people. Absent: the one of its server.
	DisplayName string `config:"display_name"`
	// Category is a word to group by. Absent: none.
	Category string `config:"category"`
	// Class is what it does. Absent: nothing is said, which counts as destructive.
	Class string `config:"class" enum:"read-only|write|destructive"`
	// Risk of calling it. Absent: by its class.
	Risk string `config:"risk" enum:"low|medium|high"`
	// HighCost keeps it from being called while resources are short. Absent: no.
	HighCost *bool `config:"high_cost"`
	// Definition is the SHA-256 of the definition that alone is accepted, see [Hash]. Absent: the first one is.
	Definition string `config:"definition" format:"sha256"`
	// Tenants switches it on or off for single tenants. Absent: for none.
	Tenants map[string]bool `config:"tenants"`
	// DenyPersonas are personas that are kept away from it. Absent: none.
	DenyPersonas []string `config:"deny_personas"`

	At gate.Rule `config:"-"` // where it is written
}

// SeedServer is a server of the operator's list.
type SeedServer struct {
	// Server is the key that it gets. Required.
	Server string `config:"server" required:"true"`
	// Entry is its entry of the list. Required.
	Entry string `config:"entry" required:"true"`
	// Tenant is whose it is. Absent: default.
	Tenant string `config:"tenant" default:"default"`
	// Arguments are the choices that the entry asks for. Absent: none.
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
	for _, persona := range e.DenyPersonas {
		if persona == "" {
			p.At(n, "deny_personas", "", "a persona has no name")
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
