package registry

import (
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// Class returns the effective class of a capability: the operator's class from the
// catalog, made stricter by the hints of its server. Unknown capabilities count as
// destructive. So does everything while the catalog cannot be read.
func (r *Registry) Class(capabilityID string) governance.Class {
	if v, err := r.current(); err == nil && capabilityID != "" {
		if one := v.rows[capabilityID]; one != nil {
			return one.class
		}
	}
	return governance.Classify(governance.Operator{}, governance.Hints{})
}

// Operator returns the operator's settings for a capability from the catalog. It
// returns nothing while the catalog cannot be read.
func (r *Registry) Operator(capabilityID string) governance.Operator {
	if v, err := r.current(); err == nil && capabilityID != "" {
		if one := v.rows[capabilityID]; one != nil {
			return operator(one.record)
		}
	}
	return governance.Operator{}
}

// Category returns the category of a capability, empty for none, also while the catalog
// cannot be read.
func (r *Registry) Category(capabilityID string) string {
	if v, err := r.current(); err == nil && capabilityID != "" {
		if one := v.rows[capabilityID]; one != nil {
			return one.category
		}
	}
	return ""
}

// Title returns the title that a seed gives to a capability, empty where it is that of
// the definition which its server lists, also while the catalog cannot be read.
func (r *Registry) Title(capabilityID string, listed []byte) string {
	if v, err := r.current(); err == nil && capabilityID != "" {
		if one := v.rows[capabilityID]; one != nil && one.record != nil && one.record.DisplayName != ownTitle(listed) {
			return one.record.DisplayName
		}
	}
	return ""
}

// classOf returns the class of a record, given the definition that its server lists
// now. Either may be nil.
func classOf(r *store.RegistryRecord, definition []byte) governance.Class {
	if definition == nil && r != nil {
		definition = r.Definition
	}
	return governance.Classify(operator(r), governance.ReadHints(definition))
}

func operator(r *store.RegistryRecord) governance.Operator {
	if r == nil {
		return governance.Operator{}
	}
	return governance.Operator{
		ReadOnly: r.Class.ReadOnly, Destructive: r.Class.Destructive, Risk: governance.Risk(r.Class.Risk),
		HighCost: r.Class.HighCost != nil && *r.Class.HighCost,
	}
}

// annotations returns a definition with nothing but the annotations of the given one.
func annotations(definition []byte) []byte {
	a := mcp.Lookup(definition, "annotations")
	if a == nil {
		return nil
	}
	return append(append([]byte(`{"annotations":`), a...), '}')
}
