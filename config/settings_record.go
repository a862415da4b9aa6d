package config

import "time"

// Retention is how long records are kept.
type Retention struct {
	// Executions is for the execution log. Absent: 90d.
	Executions time.Duration `config:"executions" default:"90d"`
	// Audit is for files of the audit record that were put aside; 0 is for ever. Absent: 365d.
	Audit time.Duration `config:"audit" default:"365d"`
}
