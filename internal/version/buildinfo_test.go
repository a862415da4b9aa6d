package version

import (
	"runtime/debug"
	"testing"
)

func TestInstalled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		version, sum string
		want         string
	}{
		{"go install of a release", "v0.4.2", "h1:sum", "0.4.2"},
		{"go install of a candidate", "v1.0.0-rc.1", "h1:sum", "1.0.0-rc.1"},
		{"go install of a commit", "v0.0.0-20261126105300-c8a564a7f00d", "h1:sum", "0.0.0-20261126105300-c8a564a7f00d"},
		{"go build", "(devel)", "", development},
		{"go build of a checkout with a revision", "v0.0.0-20261126105300-c8a564a7f00d", "", development},
		{"go build of a changed checkout", "v0.4.2+dirty", "", development},
		{"nothing recorded", "", "", development},
	} {
		if got := installed(debug.Module{Version: c.version, Sum: c.sum}); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
