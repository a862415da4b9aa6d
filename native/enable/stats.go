package enable

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/toolapi"
)

// ToolStats is the tool by which an agent learns how its calls went.
const ToolStats = "tool_stats"

// maxStatsDays is how far back statistics may look, statsDays how far they do when nothing
// is said.
const maxStatsDays, statsDays = 30, 7

// Stat is how the calls of one tool went.
type Stat struct {
	Tool        string     `json:"tool"`
	Calls       int64      `json:"calls"`
	SuccessRate float64    `json:"success_rate"`
	MedianMS    float64    `json:"median_ms"`
	P95MS       float64    `json:"p95_ms"`
	LastError   string     `json:"last_error,omitempty"` // its class
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
}

// Stats has the statistics of calls. It is safe for concurrent use and limits its own
// waits.
type Stats interface {
	// ToolStats returns the statistics that the caller of the context may see, of the
	// tools that it may see, and whose calls they are: "you" or "your tenant".
	ToolStats(ctx context.Context, since time.Time) (stats []Stat, of string, err error)
}

// WithStats returns the backend with tool_stats in the list, too.
func (b *Backend) WithStats(s Stats) *Backend {
	out := b.with(ToolStats, statsTool)
	out.stats = s
	return out
}

// with returns the backend with another tool in the list.
func (b *Backend) with(name, raw string) *Backend {
	out, listing := *b, *b.listing
	listing.Items = maps.Clone(listing.Items)
	listing.Items[mcp.Tool] = append(slices.Clone(listing.Items[mcp.Tool]), mcp.Item{Key: name, Raw: []byte(raw)})
	slices.SortFunc(listing.Items[mcp.Tool], func(a, b mcp.Item) int { return strings.Compare(a.Key, b.Key) })
	out.listing = &listing
	return &out
}

const statsTool = `{"name":"tool_stats","title":"Statistics of tools","description":"Tell how your calls of tools went: how many succeeded, how long they took, and the class of the last error of each tool.",` +
	`"inputSchema":{"type":"object","properties":{"tool":{"type":"string","description":"Only this tool"},` +
	`"days":{"type":"integer","minimum":1,"maximum":30,"description":"How far back to look; 7 if left out"}},"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`

// statsFound is what tool_stats answers.
type statsFound struct {
	CallsOf string `json:"calls_of"`
	Tools   []Stat `json:"tools"`
}

// runStats runs tool_stats.
func (b *Backend) runStats(ctx context.Context, args []byte) (any, error) {
	var in struct {
		Tool string `json:"tool"`
		Days int    `json:"days"`
	}
	d := json.NewDecoder(strings.NewReader(string(args)))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, toolapi.Problem(`The arguments are {"tool": "...", "days": 7}, and each may be left out.`)
	}
	switch {
	case in.Days == 0:
		in.Days = statsDays
	case in.Days < 0 || in.Days > maxStatsDays:
		return nil, toolapi.Problem("days is from 1 to 30.")
	}
	stats, of, err := b.stats.ToolStats(ctx, time.Now().Add(-time.Duration(in.Days)*24*time.Hour))
	if err != nil {
		return nil, err
	}
	return statsFound{CallsOf: of, Tools: slices.DeleteFunc(append([]Stat{}, stats...), func(s Stat) bool { return in.Tool != "" && s.Tool != in.Tool })}, nil
}
