package config

import "time"

// Retention is how long records are kept.
type Retention struct {
	// How long executions are kept in the store. Default: 90d.
	Executions time.Duration `config:"executions" default:"90d"`
	// How long rotated files of the audit log are kept; 0 is forever. Default: 365d.
	Audit time.Duration `config:"audit" default:"365d"`
}
