package registry

import (
	"context"

	"github.com/toolgate/toolgate/gate"
)

// RenameServer moves everything recorded about a server to another key, see
// [store.Capabilities.Rename]: ids, and with them flags, restrictions and accepted
// definitions. Call it before the server is offered under its new key.
func (r *Registry) RenameServer(ctx context.Context, from, to string) (moved, taken bool, err error) {
	r.working.Lock()
	defer r.working.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	moved, taken, err = r.o.Store.Capabilities().Rename(ctx, from, to)
	if err != nil || !moved {
		return moved, taken, err
	}
	delete(r.offers, from)
	return moved, taken, r.load(ctx)
}

// Rename is a capability whose exposed name has changed. Its operator renamed it, or a
// server now lists a name that collides with it.
type Rename struct {
	ID               string
	Kind             string // as in [store.CapabilityKey]
	Server, Original string
	Was              string     // exposed name or URI until now
	Is               gate.Names // from now on
}

// renames returns the renames among items that are about to be recorded.
func (r *Registry) renames(items []*item) []Rename {
	var out []Rename
	for _, i := range items {
		if record := r.tables.byKey[i.key]; record != nil && record.Name != i.exposed && i.fault == "" {
			out = append(out, Rename{
				ID: i.id, Kind: i.key.Kind, Server: i.key.Server, Original: i.key.Original,
				Was: record.Name, Is: gate.Names{Exposed: i.exposed, Unsuffixed: i.unsuffixed},
			})
		}
	}
	return out
}
