// Package records is what is kept of calls and changes: the audit log, the executions,
// the metrics, the traces, the feeds, and what `toolgate top` shows.
package records
