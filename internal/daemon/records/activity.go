package records

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
)

// Activity counts what was done with each tool, for `toolgate top`. The zero value
// has counted nothing. All methods may be called concurrently.
type Activity struct {
	mu    sync.RWMutex
	tools map[called]*counters
}

// called is a tool that was called. Tools that a gateway does not know, and those
// beyond the bound, are all one.
type called struct{ server, tool string }

var calledOther = called{server: "other"}

type counters struct{ calls, failed, denied, micros atomic.Int64 }

// Count adds a call. One of a tool that is not known has an empty name.
func (a *Activity) Count(server, tool string, outcome audit.Outcome, micros int64) {
	key := called{server, tool}
	if tool == "" {
		key = calledOther
	}
	c := a.of(key)
	c.calls.Add(1)
	c.micros.Add(micros)
	switch outcome {
	case audit.OutcomeDenied:
		c.denied.Add(1)
	case audit.OutcomeToolError, audit.OutcomeError, audit.OutcomeUnknown:
		c.failed.Add(1)
	case audit.OutcomeOK, audit.OutcomeCancelled, audit.OutcomeAbandoned:
	}
}

// of returns the counters of a tool.
func (a *Activity) of(key called) *counters {
	a.mu.RLock()
	c := a.tools[key]
	a.mu.RUnlock()
	if c != nil {
		return c
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tools == nil {
		a.tools = make(map[called]*counters)
	}
	if len(a.tools) >= admin.MaxActivity-1 {
		key = calledOther
	}
	if c = a.tools[key]; c == nil {
		c = &counters{}
		a.tools[key] = c
	}
	return c
}

func (a *Activity) List() []admin.ToolActivity {
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := make([]admin.ToolActivity, 0, len(a.tools))
	for key, c := range a.tools {
		out = append(out, admin.ToolActivity{
			Server: key.server, Tool: key.tool,
			Calls: c.calls.Load(), Failed: c.failed.Load(), Denied: c.denied.Load(), Micros: c.micros.Load(),
		})
	}
	slices.SortFunc(out, func(x, y admin.ToolActivity) int {
		return cmp.Or(cmp.Compare(x.Server, y.Server), cmp.Compare(x.Tool, y.Tool))
	})
	return out
}
