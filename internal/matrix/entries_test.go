package matrix

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/toolgate/toolgate/internal/audit"
)

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
	e.mu.Lock()
	e.all = append(e.all, *entry)
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
	return e.Log.Append(entry)
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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []audit.Entry
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry audit.Entry
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			return nil, fmt.Errorf("a line of the audit log: %w: %s", err, lines.Bytes())
		}
		all = append(all, entry)
	}
	return all, lines.Err()
}
