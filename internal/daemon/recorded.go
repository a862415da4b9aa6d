//go:build !bench

package daemon

// What is kept of calls. internal/bench compares with a program that can keep less,
// which is decided when it is compiled and never by a setting.
const (
	keepsRecords = true // the audit log and the metrics of calls
	executed     = true // the execution log
)
