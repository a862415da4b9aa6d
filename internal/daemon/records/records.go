package records

import (
	"context"
	"crypto/rand"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/proxy"
)

// Options are what the records of a gateway are made of. All of it is needed.
type Options struct {
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	Store   *store.Store
	State   *statedir.Dir
	Hidden  *hidden.Secrets
	// Config returns the settings in force.
	Config func() *config.Config
}

// Records are what is kept of calls and changes: the audit log, the executions, the
// metrics, the traces and the feeds. They are safe for concurrent use. Open them with
// [Open]; [Records.Run] writes them.
type Records struct {
	log     *slog.Logger
	metrics *telemetry.Metrics
	store   *store.Store
	state   *statedir.Dir
	hidden  *hidden.Secrets
	config  func() *config.Config

	audit      *audit.Log
	reading    turns // of reading the audit log for an administrator
	executions *store.Executions
	instance   string            // names this gateway to a collector
	traces     *telemetry.Traces // nil where nobody takes them
	push       *telemetry.Push   // nil where nobody takes metrics
	feeds      feeds
	done       Activity
	live       live          // for those who watch calls
	approvals  chan struct{} // capacity 1: the approvals have changed
}

// Open opens the audit log and what else a configuration asks for. Whoever opens
// records closes them.
func Open(ctx context.Context, o Options, c *config.Config, authenticated bool) (*Records, error) {
	r := &Records{
		log: o.Log, metrics: o.Metrics, store: o.Store, state: o.State, hidden: o.Hidden, config: o.Config, approvals: make(chan struct{}, 1), reading: newTurns(),
		executions: o.Store.Executions(c.Toolgate.Retention.Executions), instance: rand.Text(),
	}
	var err error
	if r.audit, err = r.openAudit(c, authenticated); err != nil {
		return nil, err
	}
	r.metrics.WatchAudit(r.auditStats)
	if r.traces, err = r.tracing(ctx, c); err == nil {
		r.push, err = r.pushing(ctx, c)
	}
	if err == nil {
		r.feeds, err = r.newFeeds(c)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the audit log. Nothing is recorded after it.
func (r *Records) Close() {
	if err := r.audit.Close(); err != nil {
		r.log.Error("close the audit log", "err", err)
	}
}

// Run writes what is recorded until the context ends, and then what is left.
func (r *Records) Run(ctx context.Context) error {
	group := new(errgroup.Group)
	group.Go(func() error { return r.audit.Run(ctx) })
	group.Go(func() error { return r.runTraces(ctx) })
	group.Go(func() error { return r.runPush(ctx) })
	group.Go(func() error { return r.executions.Run(ctx) })
	group.Go(func() error { return r.feeds.run(ctx) })
	group.Go(func() error { return r.countApprovals(ctx) })
	return group.Wait()
}

// Auditor is the audit log, for the gateway that writes it.
func (r *Records) Auditor() *audit.Log { return r.audit }

// CallAuditor records the calls of the gateway in the audit log, and in the log of the
// program as well where somebody wants that.
func (r *Records) CallAuditor(logged bool) proxy.Auditor {
	if !logged {
		return r.audit
	}
	return loggedCalls{r.audit, r.log.Handler()}
}

// Tracer is who traces calls; nil is nobody.
func (r *Records) Tracer() proxy.Tracer {
	if r.traces == nil { // a nil pointer would be no nil interface
		return nil
	}
	return tracer{r.traces}
}

// Tools is what was done with each tool since the start.
func (r *Records) Tools() []admin.ToolActivity { return r.done.List() }

// ApprovalsChanged takes the news that calls wait for an answer, or do not any more.
func (r *Records) ApprovalsChanged() {
	select {
	case r.approvals <- struct{}{}:
	default: // the token that is there stands for this one too
	}
}

// Reader reads the records for an administrator. It implements [admin.AuditReader],
// [admin.UsageReader] and [admin.CallReader].
type Reader struct{ r *Records }

// Reader returns who reads the records.
func (r *Records) Reader() Reader { return Reader{r} }

var (
	_ admin.AuditReader = Reader{}
	_ admin.UsageReader = Reader{}
	_ admin.CallReader  = Reader{}
)
