//go:build !bench

package build

// What is kept of calls. internal/bench compares with a program that can keep less,
// which is decided when it is compiled and never by a setting.
const (
	KeepsRecords = true // the audit log and the metrics of calls
	Executed     = true // the execution log
)
