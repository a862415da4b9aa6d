package daemon

import (
	"strings"

	"github.com/toolgate/toolgate/config"
)

// addedPrefix is how the namespaces of the servers of an offer begin.
func addedPrefix(offer string) string {
	own := config.Namespace(offer)
	return strings.TrimRight(own[:min(len(own), 20-addedTail)], "-") + "-"
}

// addedTail is how many characters tell the servers of one offer apart: "-" and
// seven.
const addedTail = 8
