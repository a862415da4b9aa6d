package config

import (
	"encoding/json"
	"path/filepath"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
)

// Seed is what a seed file says.
type Seed struct {
	File         string
	Capabilities []SeedCapability
	Servers      []SeedServer

	lines []int // of the capabilities
}

// Line returns where a capability of the seed begins.
func (s *Seed) Line(capability int) int { return s.lines[capability] }

// SeedFile is a seed file: what is written about capabilities when they are
// first seen. Keys that it does not have are errors.
type SeedFile struct {
	// Capabilities are rules about single tools, prompts, resources and templates. Absent: none.
	Capabilities []SeedCapability `config:"capabilities"`
	// Servers are servers of the operator's list that there are from the beginning. Absent: none.
	Servers []SeedServer `config:"servers"`
}

// SeedCapability is what is written about one capability. It is named by name,
// or by server and original.
type SeedCapability struct {
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
	// Definition is the SHA-256 of the definition that alone is accepted. Absent: the first one is.
	Definition string `config:"definition" format:"sha256"`
	// Tenants switches it on or off for single tenants. Absent: for none.
	Tenants map[string]bool `config:"tenants"`
	// DenyPersonas are personas that are kept away from it. Absent: none.
	DenyPersonas []string `config:"deny_personas"`
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
	data, err := readRegular(path, format.MaxFileSize)
	if err != nil {
		return nil, &tree.Error{File: path, Problem: "the seed file cannot be read: " + err.Error(), Hint: "name an existing one under toolgate.registry.seed", Err: err}
	}
	return ParseSeed(path, data)
}

// ParseSeed checks the contents of a seed file of the given name.
func ParseSeed(path string, data []byte) (*Seed, error) {
	p := &tree.Problems{File: path}
	root := format.Read(p, path, data)
	if root == nil {
		return nil, p.Err()
	}
	var file SeedFile
	decode.New(p, filepath.Dir(path)).Decode(root, &file, "registry.seed")
	s := &Seed{File: path, Capabilities: file.Capabilities, Servers: file.Servers}
	for i := range s.Capabilities {
		n := root.Get("capabilities").Items[i]
		s.lines = append(s.lines, n.Line)
		checkSeed(p, n, &s.Capabilities[i])
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// checkSeed refuses an entry of which it is not clear what it is about.
func checkSeed(p *tree.Problems, n *tree.Node, c *SeedCapability) {
	const hint = "write name: as clients know it, or server: and original:"
	switch {
	case c.Name == "" && (c.Server == "" || c.Original == ""):
		p.At(n, "", hint, "the entry names nothing")
	case c.Name != "" && (c.Server != "" || c.Original != ""):
		p.At(n, "", hint, "the entry names two things")
	}
	for tenant := range c.Tenants {
		if tenant == "" {
			p.At(n, "tenants", "", "a tenant has no name")
		}
	}
	for _, persona := range c.DenyPersonas {
		if persona == "" {
			p.At(n, "deny_personas", "", "a persona has no name")
		}
	}
}
