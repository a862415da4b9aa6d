//go:build e2e

package matrix

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/daemon/records"
)

// written are the entries in the audit log of a gateway, which is complete once the
// gateway has ended.
func written(home *daemontest.Home) ([]audit.Entry, error) {
	c, err := daemontest.Read(home.File)
	if err != nil {
		return nil, err
	}
	keys, err := records.Keys(c, home.State())
	if err != nil {
		return nil, err
	}
	path := auditLog(home)
	report, err := audit.Verify([]string{path}, keys, nil, nil)
	if err != nil {
		return nil, err
	}
	if len(report.Findings) > 0 || report.Open > 0 {
		return nil, fmt.Errorf("the audit log: %d calls are open, and %v", report.Open, report.Findings)
	}
	return audit.Closed(path)
}

// auditLog is the path of the audit log of a gateway.
func auditLog(home *daemontest.Home) string { return home.Path("audit.jsonl") }
