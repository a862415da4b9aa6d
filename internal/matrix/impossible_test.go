//go:build e2e

package matrix

import "github.com/toolgate/toolgate/internal/mcp"

// reason is why a cell cannot exist, with where the specification says so.
type reason struct {
	why     string
	section string
}

// The impossible cells. There are no others: whatever has no reason of this
// table is run.
var (
	noStreamable = &reason{
		"streamable HTTP does not exist in 2024-11-05",
		"2024-11-05 basic/transports; 2025-03-26 changelog, Major changes 2",
	}
	noSSE = &reason{
		"HTTP+SSE does not exist in 2026-07-28",
		"2026-07-28 basic/transports/streamable-http, Backward Compatibility",
	}
	noElicitation = &reason{
		"elicitation does not exist before 2025-06-18",
		"2025-06-18 changelog, Major changes; client/elicitation",
	}
	noURLElicitation = &reason{
		"url elicitation does not exist before 2025-11-25",
		"2025-11-25 changelog, Major changes; client/elicitation, URL Mode",
	}
	noSamplingTools = &reason{
		"sampling with tools does not exist before 2025-11-25",
		"2025-11-25 changelog, Major changes; client/sampling, Tools",
	}
	noTasks = &reason{
		"tasks do not exist before 2025-11-25",
		"2025-11-25 changelog, Major changes; basic/utilities/tasks",
	}
	noStream = &reason{
		"a client that opened no stream cannot be notified",
		"2025-11-25 basic/transports, Listening for Messages from the Server; 2026-07-28 basic/patterns/subscriptions",
	}
	noResumption = &reason{
		"2026-07-28 has no resumption, and stdio and HTTP+SSE have no stream that could be resumed",
		"2026-07-28 changelog, Major changes; 2025-11-25 basic/transports, Resumability and Redelivery",
	}
)

// since returns the reason for the cells with a revision before the first that
// has something.
func since(first mcp.Version, why *reason) func(down, up kind) *reason {
	return func(down, up kind) *reason {
		if down.rev < first || up.rev < first {
			return why
		}
		return nil
	}
}

// everywhere has no impossible cell.
func everywhere(_, _ kind) *reason { return nil }
