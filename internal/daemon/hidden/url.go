package hidden

import (
	"regexp"
	"strings"
)

var userInfo = regexp.MustCompile(`//[^/?#]*@`)

// URL returns a URL without its possibly secret parts: user, password and query.
func URL(raw string) string {
	raw = userInfo.ReplaceAllString(raw, "//[redacted]@")
	if path, _, ok := strings.Cut(raw, "?"); ok {
		return path + "?[redacted]"
	}
	return raw
}
