package inside

import (
	"math"
	"strconv"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
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
		if !finite(done) || !finite(total) || done <= last {
			return
		}
		last = done
		out := strconv.AppendFloat([]byte(`{"progress":`), done, 'g', -1, 64)
		if total != 0 {
			out = strconv.AppendFloat(append(out, `,"total":`...), total, 'g', -1, 64)
		}
		if message != "" {
			out = mcp.AppendQuote(append(out, `,"message":`...), message)
		}
		call.Notify(mcp.NotifyProgress, append(out, '}'))
	}
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
