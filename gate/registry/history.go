package registry

import (
	"context"
	"errors"
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// VersionKey is the member of _meta in which a declared tool has its version.
const VersionKey = "dev.toolgate/version"

// Version returns the version that a definition gives: that of a declaration, or a member
// version of _meta that its server has written. It is empty for none.
func Version(definition []byte) string {
	for _, key := range []string{VersionKey, "version"} {
		if version, ok := mcp.LookupString(definition, "_meta", key); ok {
			return version
		}
	}
	return ""
}

// ErrDeclared tells that a definition is the gateway's own.
var ErrDeclared = errors.New("its definition is the gateway's own; put the older declaration back instead")

// History returns the definitions that were accepted of a capability, the latest first.
func (r *Registry) History(ctx context.Context, id string) ([]store.AcceptedDefinition, error) {
	return r.o.Store.Registry().History(ctx, id)
}

// Accept serves the held definition that has the given hash. With the hash of a definition
// that was accepted before it goes back to that one: the present one is held, and the
// capability is served again when its server offers the older one.
func (r *Registry) Accept(ctx context.Context, id, hash string, by store.Change) error {
	history, err := r.History(ctx, id)
	if err != nil {
		return err
	}
	return r.edit(ctx, id, by, func(record *store.RegistryRecord) error {
		if record.HeldHash != "" && record.HeldHash == hash {
			accept(record, record.HeldDefinition, record.HeldHash)
			return nil
		}
		i := slices.IndexFunc(history, func(d store.AcceptedDefinition) bool { return d.Hash == hash })
		switch {
		case i >= 0 && hash != record.AcceptedHash && record.Provider != store.ProviderMCP:
			return ErrDeclared
		case i >= 0 && hash != record.AcceptedHash:
			goBack(record, &history[i])
			return nil
		case record.HeldHash == "":
			return ErrNotHeld
		}
		return ErrOther
	})
}

// goBack makes an older definition the accepted one. What the server offers now is held.
func goBack(record *store.RegistryRecord, to *store.AcceptedDefinition) {
	held, hash, state := record.HeldDefinition, record.HeldHash, record.State
	if hash == "" {
		held, hash = record.Definition, record.DefinitionHash
	}
	accept(record, to.Definition, to.Hash)
	record.HeldDefinition, record.HeldHash, record.State = held, hash, state
	if state == store.StateActive {
		record.State = store.StateHeld
	}
}
