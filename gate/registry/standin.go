package registry

import (
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// standsIn tells whether a record describes the gateway's own stand-in for a server.
// The server's own list has nothing to do with it.
func (r *Registry) standsIn(record *store.RegistryRecord) bool {
	if r.o.StandIn == nil || record.Kind != mcp.Tool.String() {
		return false
	}
	hash := Hash(r.o.StandIn)
	return record.AcceptedHash == hash || record.AcceptedHash == "" && record.HeldHash == hash
}

// unsee makes servers count as never seen when their only records are stand-ins and
// empty instructions.
func (r *Registry) unsee(t *tables, records []store.RegistryRecord) {
	for i := range records {
		if r.standsIn(&records[i]) {
			delete(t.servers, records[i].Server)
		}
	}
	for _, record := range t.records {
		if record.Kind != KindInstructions || record.AcceptedHash != emptyInstructions {
			t.servers[record.Server] = true
		}
	}
}
