package child

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// telling finds what launchers of servers say of their failure. The first pattern that
// matches a line counts, and the first such line. Its group is what a person
// needs. The patterns are compiled when the first program has ended.
var telling = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		// any: a certificate that is not trusted
		regexp.MustCompile(`(?i)^(?:npm (?:error|ERR!) )?\s*(?:cause: )?(.*(?:self.signed certificate|certificate verify failed|unable to get (?:local )?issuer certificate|invalid peer certificate|x509: ).*)$`),
		// npm and npx
		regexp.MustCompile(`^npm (?:error|ERR!) (?:\d+ +)?(\d{3} .+)$`),
		regexp.MustCompile(`^npm (?:error|ERR!) (?:network )?(?:\w+Error: )?(request to .+ failed, reason: .+)$`),
		regexp.MustCompile(`^npm (?:error|ERR!) (could not determine executable to run|notarget .+)$`),
		// uv and uvx
		regexp.MustCompile(`^\s*(?:cause:|╰─▶|├─▶|Caused by:) +(.+)$`),
		// docker
		regexp.MustCompile(`^docker: (.+)$`),
	}
})

// StdoutNote begins a line of [Process.Note] that was written to stdout.
const StdoutNote = "[stdout] "

// trailers are lines that launchers write after the one that says what was wrong.
var trailers = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(npm (error|ERR!|notice|warn|WARN)\b|Node\.js v\d|\[notice\] |\s*(hint|help|note): |(See|Run) 'docker .*--help'|For more help, run )`)
})

// LastWords returns the line of a program's standard error that says best why it ended,
// empty without any. That is the last line, unless a launcher has written it that said
// more before. Lines that were written to stdout are none.
func LastWords(lines []string) string {
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasPrefix(line, StdoutNote) })
	for _, pattern := range telling() {
		for _, line := range lines {
			if found := pattern.FindStringSubmatch(line); found != nil {
				return strings.TrimSpace(found[1])
			}
		}
	}
	last := ""
	for _, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if last == "" {
			last = line
		}
		if !trailers().MatchString(line) {
			return line
		}
	}
	return last
}
