package registry

import (
	_ "embed" // what is shipped
	"fmt"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// Shipped is what toolgate itself knows of the tools of a configuration's servers. It is a
// seed that only describes: it decides about nothing, accepts nothing, and leaves alone
// what somebody else has said. A nil one knows nothing.
type Shipped struct {
	entries map[key]*SeedEntry
}

//go:embed shipped.yaml
var shippedText []byte

// shippedFile is the shape of shipped.yaml.
type shippedFile struct {
	Servers []shippedServer `config:"servers"`
	Native  []shippedServer `config:"native"`
}

// shippedServer is what is known of one server's tools.
type shippedServer struct {
	Programs []string          `config:"programs"`
	Category string            `config:"category"`
	Tools    map[string]string `config:"tools"`
}

// ship returns what is shipped: entries by the original name of a tool, for each program
// that is no part of toolgate, and for each group of native tools.
var ship = sync.OnceValues(func() (servers, native map[string]map[string]*SeedEntry) {
	const name = "shipped.yaml"
	p := &tree.Problems{File: name}
	var file shippedFile
	root := format.Read(p, name, shippedText)
	decode.New(p, "").Decode(root, &file, "")
	if err := p.Err(); err != nil {
		panic(fmt.Sprintf("the shipped seed: %v", err)) // it is part of the program
	}
	return entriesOf(file.Servers), entriesOf(file.Native)
})

func entriesOf(servers []shippedServer) map[string]map[string]*SeedEntry {
	out := map[string]map[string]*SeedEntry{}
	for _, s := range servers {
		tools := make(map[string]*SeedEntry, len(s.Tools))
		for name, words := range s.Tools {
			e := &SeedEntry{Original: name, Category: s.Category}
			for word := range strings.FieldsSeq(words) {
				switch word {
				case ClassReadOnly, ClassWrite, ClassDestructive:
					e.Class = word
				case "low", "medium", "high":
					e.Risk = word
				case "high-cost":
					e.HighCost = new(true)
				default:
					panic(fmt.Sprintf("the shipped seed: %s of %s: %q is no class, risk or cost", name, s.Programs, word))
				}
			}
			tools[name] = e
		}
		for _, program := range s.Programs {
			out[program] = tools
		}
	}
	return out
}

// NewShipped returns what is known of the tools of servers: their programs by their keys,
// and the keys of groups of native tools.
func NewShipped(programs map[string]string, groups ...string) *Shipped {
	servers, native := ship()
	out := &Shipped{entries: map[key]*SeedEntry{}}
	add := func(server string, tools map[string]*SeedEntry) {
		for name, e := range tools {
			out.entries[key{Server: server, Kind: mcp.Tool.String(), Original: name}] = e
		}
	}
	for server, program := range programs {
		add(server, servers[program])
	}
	for _, group := range groups {
		add(group, native[group])
	}
	return out
}

// news returns what is known of a capability and not in its record: nil once it was
// written there, and where somebody has decided about it.
func (s *Shipped) news(r *store.RegistryRecord) *SeedEntry {
	if s == nil || r.Source != SourceDiscovery {
		return nil
	}
	return s.entries[recordKey(r)]
}

// write adds to a record what is known of it, where nothing else is said.
func (s *Shipped) write(r *store.RegistryRecord) {
	if s == nil {
		return
	}
	e := s.entries[recordKey(r)]
	if e == nil {
		return
	}
	if r.Source == SourceDiscovery {
		r.Source = SourceShipped
	}
	if r.Category == "" {
		r.Category = e.Category
	}
	said := Class(e.Class, e.Risk, e.HighCost)
	if r.Class.ReadOnly == nil && r.Class.Destructive == nil {
		r.Class.ReadOnly, r.Class.Destructive = said.ReadOnly, said.Destructive
	}
	if r.Class.Risk == "" {
		r.Class.Risk = said.Risk
	}
	if r.Class.HighCost == nil {
		r.Class.HighCost = said.HighCost
	}
}
