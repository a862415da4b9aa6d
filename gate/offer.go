package gate

import "github.com/toolgate/toolgate/internal/mcp"

// OwnNamespace begins the names of the gateway's own tools. No other server gets names in it.
const OwnNamespace = "toolgate"

// Offer is what one server lists, before any client sees it. It is not changed once
// made: the same offer is the same pointer.
type Offer struct {
	Server    string // key of the server in the configuration
	Namespace string // in front of its exposed names; empty for none
	// Native tells that the server is a part of the gateway: its definitions change only
	// with the gateway.
	Native bool
	// Added tells that an agent has added the server while the gateway runs.
	Added bool
	// Confirmed tells that the server itself has listed it since it was started, so that
	// what is missing is gone. A last known list is not confirmed.
	Confirmed bool
	Items     []Offered
	// Instructions are the server's instructions for models; nil while they are not
	// known.
	Instructions *string
}

// Offered is one capability of an [Offer].
type Offered struct {
	Kind         mcp.Kind
	Original     string // name or URI at the server
	Exposed      string // name or URI that clients would know
	Unsuffixed   string // see [Names]
	CapabilityID string // empty when none was issued
	// Definition is the item as its server listed it, validated JSON.
	Definition []byte
	// External tells that another service answers it, where the server is a part of
	// the gateway.
	External bool
	// StandIn tells that the gateway lists it itself while the server's own list is not
	// known yet. It is neither recorded nor compared.
	StandIn bool
	// Withheld tells that nobody is listed it and nobody can call it, because an interceptor
	// said so.
	Withheld bool
}
