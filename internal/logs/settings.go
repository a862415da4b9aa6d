package logs

// Settings are what an operator says of the log, which goes to stderr.
type Settings struct {
	// Lowest level that is logged; -v and --quiet override it. Default: warn.
	Level string `config:"level" enum:"debug|info|warn|error" default:"warn"`
	// Format of log lines. Default: auto, which is text on a terminal and JSON elsewhere.
	Format Format `config:"format" enum:"auto|text|json" default:"auto"`
}
