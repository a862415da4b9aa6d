package inside

import (
	"math"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
)

// progressOf returns how a tool reports progress to the client of its call. Reports that
// the client has not asked for, and those that do not grow, are dropped.
func progressOf(call *mcp.Call) func(done, total float64, message string) {
	if call.Notify == nil || !call.Progress {
		return func(float64, float64, string) {}
	}
	var mu sync.Mutex // the client is told from one goroutine at a time
	last := math.Inf(-1)
	return func(done, total float64, message string) {
		mu.Lock()
		defer mu.Unlock()
		if done <= last || math.IsNaN(done+total) || math.IsInf(done, 0) || math.IsInf(total, 0) {
			return
		}
		last = done
		native.NotifyProgress(call, done, total, message)
	}
}
