package version

import (
	"runtime/debug"
	"strings"
)

// development is the version of a build that nobody stamped.
const development = "0.1.0-dev"

func init() {
	if info, ok := debug.ReadBuildInfo(); ok && Version == development {
		Version = installed(info.Main)
	}
}

// installed returns the version that `go install ...@VERSION` recorded. A build of a
// checkout has no tag, or a version that the go command made up from a commit, and
// stays a development version: its revision is shown beside it.
func installed(m debug.Module) string {
	v, tagged := strings.CutPrefix(m.Version, "v")
	if !tagged || m.Sum == "" || strings.Contains(v, "+") {
		return development
	}
	return v
}
