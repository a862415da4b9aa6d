package records

import (
	"slices"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/store"
)

// Latest drops what is too early of entries once there are twice as many as are
// wanted: each is moved once, however many there are. Zero keeps all.
func Latest(all []audit.Record, most int) []audit.Record {
	if most > 0 && len(all) >= 2*most {
		return slices.Delete(all, 0, len(all)-most)
	}
	return all
}

// heads are anchors as the audit log knows them.
func heads(kept []store.Anchor) []audit.Head {
	all := make([]audit.Head, len(kept))
	for i, a := range kept {
		all[i] = audit.Head{Replica: a.Replica, Chain: a.Chain, Run: a.Run, Seq: a.Seq, MAC: a.MAC, Time: a.At}
	}
	return all
}
