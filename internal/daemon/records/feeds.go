package records

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/feedback"
	"github.com/toolgate/toolgate/internal/mcp"
)

// feeds are who is told about executions.
type feeds []*feedback.Feed

// newFeeds makes those of a configuration.
func (r *Records) newFeeds(c *config.Config) (feeds, error) {
	out, err := c.Toolgate.Feedback.Feeds(r.log)
	if err != nil {
		return nil, failure.Newf(failure.Config, "%s: %w", c.Path, err)
	}
	for _, feed := range out {
		r.metrics.WatchFeedback(feed.Name(), func() (sent, dropped uint64) {
			s := feed.Stats()
			return s.Sent, s.Dropped
		})
	}
	return out, nil
}

// run delivers until the context ends, and then what is left.
func (f feeds) run(ctx context.Context) error {
	group := new(errgroup.Group)
	for _, feed := range f {
		group.Go(func() error { return feed.Run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("tell of executions: %w", err)
	}
	return nil
}

// tell tells of a closed call of a tool that exists. It does not block.
func (f feeds) tell(e *audit.Entry) {
	if len(f) == 0 || e.Method != mcp.MethodToolsCall || e.Server == "" {
		return
	}
	event := feedback.Event{
		ID: e.CallID, Time: e.Time.UTC(), Tool: e.Name, Server: e.Server, Success: e.Outcome == audit.OutcomeOK, ErrorClass: errorClass(e),
		DurationMS: float64(e.DurationUS) / 1000, ArgsHash: e.ArgsHash, ResponseSize: e.BytesOut,
		Tenant: e.Principal.Tenant, PersonaID: e.Principal.Persona, SessionID: e.Session, TraceID: e.TraceID,
	}
	for _, feed := range f {
		feed.Tell(&event)
	}
}
