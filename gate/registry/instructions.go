package registry

import (
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// KindInstructions is the kind of what a server says of itself to models. It is
// kept like a capability, one for each server, and held and accepted like one. A
// server that says nothing has it too: what it begins to say is a change.
const KindInstructions = "instructions"

// instructionsKey is the key of what a server says of itself.
func instructionsKey(server string) key {
	return key{Server: server, Kind: KindInstructions, Original: KindInstructions}
}

// instructionsOf is what a server says of itself as a definition.
func instructionsOf(text string) []byte {
	return append(append([]byte(`{"`+KindInstructions+`":`), mcp.Quote(text)...), '}')
}

// emptyInstructions is the hash of those of a server that says nothing.
var emptyInstructions = Hash(instructionsOf(""))

// inspectInstructions looks at what a server says of itself.
func inspectInstructions(of *gate.Offer, names *names) item {
	definition := instructionsOf(*of.Instructions)
	one := item{
		key: instructionsKey(of.Server), exposed: of.Server + "/" + KindInstructions, definition: definition, hash: Hash(definition), native: of.Native,
	}
	if !of.Native {
		one.suspicion = suspicious(of, &gate.Offered{Definition: definition}, names)
	}
	if len(definition) > maxDefinition {
		one.fault = "it is too long"
	}
	return one
}

// ShowsInstructions tells whether a caller is told what a server says of itself:
// a text that is accepted, and not switched off for the caller.
func (r *Registry) ShowsInstructions(id *gate.Identity, server, text string) bool {
	v, err := r.current()
	if err != nil || id == nil {
		return false
	}
	one := v.byKey[instructionsKey(server)]
	return one != nil && one.judge(id) == pass && one.hash == Hash(instructionsOf(text))
}

// empty tells whether a row is of a server that says nothing of itself, and never
// did.
func (one *row) empty() bool {
	return one.key.Kind == KindInstructions && (one.hash == emptyInstructions || one.hash == "") &&
		one.record != nil && one.record.AcceptedHash == emptyInstructions && one.record.HeldHash == ""
}
