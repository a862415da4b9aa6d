package build

import (
	"math"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/headroom"
	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/limit"
)

// Messages bounds the memory for clients' messages: the configured size, but at most a
// quarter of the memory that this process may use. The rest is needed to work on them.
func Messages(l *config.Limits) *limit.Bytes {
	most := int64(l.Bodies)
	if memory := headroom.MemoryLimit(); memory > 0 {
		most = min(most, int64(min(memory/4, math.MaxInt64)))
	}
	return limit.NewBytes(most, int64(l.Body))
}

// gatewayLimits sets the limits for clients, except those of sessions. Those that are not
// settings have the gateway's defaults.
func gatewayLimits(to *proxy.Limits, l *config.Limits) {
	to.Body, to.Depth = int(l.Body), l.Depth
	to.InFlight, to.Page, to.Instructions = l.InFlight, l.Page, int(l.Instructions)
	to.Rounds, to.RoundTime = l.Rounds, l.RoundTime
	to.SuspendedPerPrincipal, to.SuspendedPerServer = l.ParkedPerPrincipal, l.ParkedPerServer
	to.Replay, to.Tasks = int(l.Replay), l.Tasks
	to.KeptResults, to.KeptResultsPerPrincipal, to.KeptResultsTime = int(l.KeptResults), int(l.KeptResultsPerPrincipal), l.KeptResultsTime
}

// QueueLimits returns the queue limits of the configuration.
func QueueLimits(c *config.Config) queue.Limits {
	return queue.Limits{Settings: c.Toolgate.Queue, Hard: DeclaredHard}
}

// DeclaredHard bounds a call of a declared tool whatever its timeout.
const DeclaredHard = 25 * time.Hour
