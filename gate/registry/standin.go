package registry

import (
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// standsIn tells whether a record is of what the gateway lists in place of a server,
// which has nothing to do with what the server lists itself.
func (r *Registry) standsIn(record *store.RegistryRecord) bool {
	if r.o.StandIn == nil || record.Kind != mcp.Tool.String() {
		return false
	}
	hash := Hash(r.o.StandIn)
	return record.AcceptedHash == hash || record.AcceptedHash == "" && record.HeldHash == hash
}

// unsee has servers count as never seen of which there are records of such a
// definition, and besides them at most of their saying nothing of themselves.
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
