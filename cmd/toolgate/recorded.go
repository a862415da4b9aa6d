//go:build !bench_nothing && !bench_noexecutions

package main

// What is kept of calls. internal/bench compares with programs that keep less,
// which is decided when they are compiled and never by a setting.
const (
	keepsRecords = true // the audit log and the metrics of calls
	executed     = true // the execution log
)
