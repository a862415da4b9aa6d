package registry

import (
	"bytes"
	"strings"

	"github.com/toolgate/toolgate/internal/store"
)

// Description is what the configuration, or the plugin of a native tool, says of a
// capability beside its definition.
type Description struct {
	Category string // empty for none; then that of a seed counts
	Config   []byte // the settings in force for it, a JSON object; nil for none
}

// The most of a description that is recorded, in bytes. A longer category is cut, and
// longer settings are left out.
const (
	maxCategory = 64
	maxConfig   = 32 << 10
)

// describe returns what is said of an item. The caller holds working.
func (s *Rules) describe(i *item) Description {
	if i.said == nil {
		i.said = &Description{}
		if s.Describe != nil {
			*i.said = s.Describe(i.key, i.names())
		}
		if len(i.said.Category) > maxCategory {
			i.said.Category = strings.ToValidUTF8(i.said.Category[:maxCategory], "")
		}
		if len(i.said.Config) > maxConfig {
			i.said.Config = nil
		}
	}
	return *i.said
}

// write puts the description into a record.
func (d Description) write(r *store.RegistryRecord) {
	if d.Category != "" {
		r.Category = d.Category
	}
	r.Config = d.Config
}

// in tells whether a record has the description.
func (d Description) in(r *store.RegistryRecord) bool {
	return (d.Category == "" || d.Category == r.Category) && bytes.Equal(d.Config, r.Config)
}

// undecided tells whether nobody has decided if a record is enabled.
func undecided(r *store.RegistryRecord) bool {
	return r.Source == SourceDiscovery || r.Source == SourceDynamic || r.Source == SourceShipped
}
