package logs

// Settings are what an operator says of the log, which goes to stderr.
type Settings struct {
	// Lowest level that is logged; -v and --quiet override it. Default: warn.
	Level string `config:"level" enum:"debug|info|warn|error" default:"warn"`
	// Format of log lines. Default: auto, which is text on a terminal and JSON elsewhere.
	Format Format `config:"format" enum:"auto|text|json" default:"auto"`
	// Logs each tool call, at any level: tool_call_started, then tool_call_completed, tool_call_failed or
	// tool_call_blocked. Default: false; the audit log has them.
	Calls bool `config:"calls"`
}
