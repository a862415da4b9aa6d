//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// results collects what the drivers reported, for results/clients.json in the
// cache: what was seen, beside what was asserted.
var results = &resultLog{reports: map[string]report{}}

type resultLog struct {
	mu      sync.Mutex
	reports map[string]report
}

func (l *resultLog) add(name string, r report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports[name] = r
}

// write keeps the reports in the cache.
func (l *resultLog) write() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.reports) == 0 {
		return nil
	}
	return writeResult("clients.json", l.reports)
}

// writeResult writes v as JSON into the results folder of the cache.
func writeResult(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(lab.cache, "results", name), append(data, '\n'), 0o644)
}
