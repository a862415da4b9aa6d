//go:build e2e

package matrix

import (
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// transport is how a peer is connected to the gateway.
type transport string

const (
	overStdio      transport = "stdio"
	overSSE        transport = "HTTP+SSE"
	overStreamable transport = "streamable HTTP"
)

// kind is one end of a cell: a revision over a transport.
type kind struct {
	rev  mcp.Version
	over transport
}

// revisions are all that toolgate speaks, oldest first.
var revisions = []mcp.Version{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728}

// transports are all that there are, oldest first.
var transports = []transport{overStdio, overSSE, overStreamable}

// kinds returns the revisions over the transports that they have. It is the
// axis of the clients and that of the servers.
func kinds() []kind {
	var all []kind
	for _, rev := range revisions {
		for _, over := range transports {
			if k := (kind{rev, over}); k.undefined() == nil {
				all = append(all, k)
			}
		}
	}
	return all
}

// undefined tells why a revision has no such transport, nil when it has.
func (k kind) undefined() *reason {
	switch {
	case k.over == overStreamable && k.rev == mcp.V20241105:
		return noStreamable
	case k.over == overSSE && k.rev == mcp.V20260728:
		return noSSE
	}
	return nil
}

func (k kind) modern() bool { return k.rev.Era() == mcp.Modern }

// streams tells whether the kind has one HTTP answer per request.
func (k kind) streams() bool { return k.over == overStreamable }

func (k kind) String() string { return string(k.rev) + " " + string(k.over) }

// slug names the kind in namespaces: a letter, the month and day, the transport.
func (k kind) slug() string {
	short := map[transport]string{overStdio: "stdio", overSSE: "sse", overStreamable: "http"}
	return "r" + strings.ReplaceAll(string(k.rev[2:]), "-", "") + "-" + short[k.over]
}
