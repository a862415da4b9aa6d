package daemon

import (
	"context"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/proxy"
)

// RecordsOptions are what the records of a gateway are made of. All of it is needed.
type RecordsOptions struct {
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	Store   *store.Store
	State   *statedir.Dir
	Hidden  *Hidden
	// Config returns the settings in force.
	Config func() *config.Config
}

// Records are what is kept of calls and changes: the audit log, the executions, the
// metrics, the traces and the feeds. They are safe for concurrent use. Open them with
// [OpenRecords]; [Records.Run] writes them.
type Records struct {
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	Store   *store.Store
	State   *statedir.Dir
	hidden  *Hidden
	config  func() *config.Config

	audit      *audit.Log
	reading    sync.Mutex // held while the audit log is read for an administrator
	executions *store.Executions
	traces     *telemetry.Traces // nil where nobody takes them
	feeds      feeds
	done       Activity
	approvals  chan struct{} // capacity 1: the approvals have changed
}

// Open opens the audit log and what else a configuration asks for. Whoever opens
// records closes them.
func OpenRecords(ctx context.Context, o RecordsOptions, c *config.Config, authenticated bool) (*Records, error) {
	in := &Records{
		Log: o.Log, Metrics: o.Metrics, Store: o.Store, State: o.State, hidden: o.Hidden, config: o.Config, approvals: make(chan struct{}, 1),
		executions: o.Store.Executions(c.Toolgate.Retention.Executions),
	}
	var err error
	if in.audit, err = in.openAudit(c, authenticated); err != nil {
		return nil, err
	}
	in.Metrics.WatchAudit(in.auditStats)
	if in.traces, err = in.tracing(ctx, c); err == nil {
		in.feeds, err = in.newFeeds(c)
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// Close closes the audit log. Nothing is recorded after it.
func (in *Records) Close() {
	if err := in.audit.Close(); err != nil {
		in.Log.Error("close the audit log", "err", err)
	}
}

// Run writes what is recorded until the context ends, and then what is left.
func (in *Records) Run(ctx context.Context) error {
	group := new(errgroup.Group)
	group.Go(func() error { return in.audit.Run(ctx) })
	group.Go(func() error { return in.runTraces(ctx) })
	group.Go(func() error { return in.executions.Run(ctx) })
	group.Go(func() error { return in.feeds.run(ctx) })
	return group.Wait()
}

// Auditor is the audit log, for the gateway that writes it.
func (in *Records) Auditor() *audit.Log { return in.audit }

// Tracer is who traces calls; nil is nobody.
func (in *Records) Tracer() proxy.Tracer {
	if in.traces == nil { // a nil pointer would be no nil interface
		return nil
	}
	return tracer{in.traces}
}

// Tools is what was done with each tool since the start.
func (in *Records) Tools() []admin.ToolActivity { return in.done.List() }

// ApprovalsChanged takes the news that calls wait for an answer, or do not any more.
func (in *Records) ApprovalsChanged() { nudge(in.approvals) }

// Reader reads the records for an administrator. It implements [admin.AuditReader] and
// [admin.UsageReader].
type Reader struct{ r *Records }

// Reader returns who reads the records.
func (in *Records) Reader() Reader { return Reader{in} }

var (
	_ admin.AuditReader = Reader{}
	_ admin.UsageReader = Reader{}
)
