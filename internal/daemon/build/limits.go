package build

import (
	"math"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/headroom"
	"github.com/toolgate/toolgate/native/queue"
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

// QueueLimits returns the queue limits of the configuration.
func QueueLimits(c *config.Config) queue.Limits {
	return queue.Limits{Settings: c.Toolgate.Queue, Hard: DeclaredHard}
}

// DeclaredHard bounds a call of a declared tool whatever its timeout.
const DeclaredHard = 25 * time.Hour
