package gate

import "github.com/toolgate/toolgate/internal/mcp"

// Offer is what one server lists, before anybody is shown it. It is not changed
// once made: the same offer is the same pointer.
type Offer struct {
	Server    string // key of the server in the configuration
	Namespace string // in front of its exposed names; empty for none
	// Native tells that it is a part of the gateway, whose definitions change with
	// the gateway alone.
	Native bool
	// Confirmed tells that the server itself said so since it was started: what
	// is missing is then gone. A last known list is not confirmed.
	Confirmed bool
	Items     []Offered
	// Instructions is what the server says of itself to models; nil while
	// nothing is known of it.
	Instructions *string
}

// Offered is one capability of an [Offer].
type Offered struct {
	Kind         mcp.Kind
	Original     string // name or URI at the server
	Exposed      string // name or URI that clients would know
	Plain        string // see [Names]
	CapabilityID string // empty when none was issued
	// Definition is the item as its server listed it, validated JSON.
	Definition []byte
	// External tells that another service answers it, where the server is a part of
	// the gateway.
	External bool
	// StandIn tells that the gateway lists it in place of what is not known of the
	// server yet. It is nobody's definition: it is neither recorded nor compared.
	StandIn bool
}
