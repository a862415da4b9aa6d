package matrix

import (
	"context"
	"fmt"
	"sync"

	"github.com/toolgate/toolgate/internal/audit"
)

// auditKey signs the audit logs of rigs.
var auditKey = audit.Key{ID: "matrix", Secret: make([]byte, 32)}

// entries is the audit log of a rig, which also tells whoever waits for an
// entry that it was written. It is safe for concurrent use.
type entries struct {
	*audit.Log

	mu      sync.Mutex
	all     []audit.Entry
	changed chan struct{} // closed and replaced with every entry
}

func newEntries(log *audit.Log) *entries {
	return &entries{Log: log, changed: make(chan struct{})}
}

// Append implements proxy.Auditor.
func (e *entries) Append(entry *audit.Entry) error {
	e.tell(entry)
	return e.Log.Append(entry)
}

// End implements proxy.Auditor.
func (e *entries) End(entry *audit.Entry) error {
	e.tell(entry)
	return e.Log.End(entry)
}

func (e *entries) tell(entry *audit.Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, *entry)
	close(e.changed)
	e.changed = make(chan struct{})
}

// await waits for an entry that fits and returns it.
func (e *entries) await(ctx context.Context, what string, fits func(*audit.Entry) bool) (audit.Entry, error) {
	for {
		e.mu.Lock()
		changed := e.changed
		for i := range e.all {
			if fits(&e.all[i]) {
				defer e.mu.Unlock()
				return e.all[i], nil
			}
		}
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return audit.Entry{}, fmt.Errorf("waiting for the audit entry of %s: %w", what, context.Cause(ctx))
		}
	}
}

// written are the entries in the file of a log, which is complete once the rig
// has ended.
func written(path string) ([]audit.Entry, error) {
	report, err := audit.Verify([]string{path}, []audit.Key{auditKey}, nil, nil)
	if err != nil {
		return nil, err
	}
	if len(report.Findings) > 0 || report.Open > 0 {
		return nil, fmt.Errorf("the audit log: %d calls are open, and %v", report.Open, report.Findings)
	}
	return audit.Closed(path)
}
