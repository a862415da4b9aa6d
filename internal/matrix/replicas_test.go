//go:build e2e && !windows

package matrix

import (
	"testing"

	"github.com/toolgate/toolgate/internal/store/storetest"
)

// TestMatrixOfReplicas runs every feature between every client and every server through
// three gateways, behind a load balancer that takes each request to the next of them.
// Without -whole it runs a third of the cells.
func TestMatrixOfReplicas(t *testing.T) {
	m := &matrix{
		rig:     startRig(t, setup{workers: workers, database: storetest.StartPostgres(t).URL(t)}),
		results: make(map[*feature]map[place]error), hung: make(map[*feature]map[kind]int),
		// It is about a gateway that makes one subscription at a server of two: here each may
		// be at a gateway of its own.
		leaveOut: []string{"updates of a resource, while the subscriptions change"},
		sparse:   !*whole,
	}
	m.all(t)
	m.together(t.Context())
	m.judge(t)
}
