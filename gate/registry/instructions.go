package registry

import (
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// KindInstructions is the kind of a server's instructions to models. They are
// recorded, held and accepted like a capability, one for each server. A server without
// instructions has an empty record, so that instructions added later count as a
// change.
const KindInstructions = "instructions"

// instructionsKey returns the key of a server's instructions.
func instructionsKey(server string) key {
	return key{Server: server, Kind: KindInstructions, Original: KindInstructions}
}

// instructionsOf returns a server's instructions as a definition.
func instructionsOf(text string) []byte {
	return append(append([]byte(`{"`+KindInstructions+`":`), mcp.Quote(text)...), '}')
}

// emptyInstructions is the hash for a server without instructions.
var emptyInstructions = Hash(instructionsOf(""))

// inspectInstructions checks a server's instructions.
func inspectInstructions(of *gate.Offer, names *names) item {
	definition := instructionsOf(*of.Instructions)
	one := item{
		key: instructionsKey(of.Server), exposed: of.Server + "/" + KindInstructions, definition: definition, hash: Hash(definition), native: of.Native,
		added: of.Added,
	}
	if !of.Native {
		one.suspicion = suspicious(of, &gate.Offered{Definition: definition}, names)
	}
	if len(definition) > maxDefinition {
		one.fault = "it is too long"
	}
	return one
}

// ShowsInstructions tells whether a caller sees a server's instructions: the text must
// be accepted, and not disabled for the caller.
func (r *Registry) ShowsInstructions(id *gate.Identity, server, text string) bool {
	v, err := r.current()
	if err != nil || id == nil {
		return false
	}
	one := v.byKey[instructionsKey(server)]
	return one != nil && one.judge(id) == pass && one.hash == Hash(instructionsOf(text))
}

// ShowsInstructionsToAll reports whether every caller is shown the instructions of a
// server. text is all of them.
func (r *Registry) ShowsInstructionsToAll(server, text string) bool {
	v, err := r.current()
	if err != nil {
		return false
	}
	one := v.byKey[instructionsKey(server)]
	return one != nil && len(one.personas) == 0 && len(one.lists) == 0 && len(one.flags) == 0 && one.judge(&gate.Identity{}) == pass &&
		one.hash == Hash(instructionsOf(text))
}

// empty tells whether a row is for a server that has no instructions, and never had
// any.
func (one *row) empty() bool {
	return one.key.Kind == KindInstructions && (one.hash == emptyInstructions || one.hash == "") &&
		one.record != nil && one.record.AcceptedHash == emptyInstructions && one.record.HeldHash == ""
}
