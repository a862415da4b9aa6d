package logs

// Settings are what an operator says of the log, which goes to stderr.
type Settings struct {
	// Level is the least that is logged; -v and --quiet come before it. Absent: warn.
	Level string `config:"level" enum:"debug|info|warn|error" default:"warn"`
	// Format is how. Absent: auto, which is text on a terminal and JSON elsewhere.
	Format Format `config:"format" enum:"auto|text|json" default:"auto"`
}
