package files

import (
	"path/filepath"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/native/toolapi"
)

// longestPath is the longest path that the systems accept.
const longestPath = 4096

// plain refuses a path that is not in its canonical spelling. So the path that a
// policy has judged is the path that is opened.
func plain(path string) error {
	switch {
	case path == "":
		return toolapi.Problemf("The path is empty; write an absolute one.")
	case len(path) > longestPath:
		return toolapi.Problemf("The path has %d bytes; at most %d are allowed.", len(path), longestPath)
	case !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl):
		return toolapi.Problemf("The path %q has control characters or is not UTF-8; neither is allowed.", path)
	case !filepath.IsAbs(path):
		return toolapi.Problemf("The path %q is not absolute; write it from the root on.", path)
	case filepath.Clean(path) != path:
		return toolapi.Problemf("The path %q is not written plainly, without \"..\", \".\" and doubled or last slashes; is %q meant?", path, filepath.Clean(path))
	case runtime.GOOS == "windows" && !plainOnWindows(path):
		return toolapi.Problemf("The path %q names a stream, or a part of it ends in a dot or a space; neither is allowed.", path)
	}
	return nil
}

// plainOnWindows refuses a path that Windows silently reads as another one.
func plainOnWindows(path string) bool {
	rest := path[len(filepath.VolumeName(path)):]
	for part := range strings.SplitSeq(rest, `\`) {
		if strings.Contains(part, ":") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, " ") {
			return false
		}
	}
	return true
}

// beneath tells whether a path is a folder or inside it, both cleaned, and returns the
// relative path.
func beneath(path, folder string) (rel string, ok bool) {
	if path == folder {
		return ".", true
	}
	if !strings.HasSuffix(folder, string(filepath.Separator)) {
		folder += string(filepath.Separator)
	}
	return strings.CutPrefix(path, folder)
}
