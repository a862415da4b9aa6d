package build

import (
	"strings"

	"github.com/toolgate/toolgate/config"
)

// AddedPrefix is how the namespaces of the servers of an offer begin.
func AddedPrefix(offer string) string {
	own := config.Namespace(offer)
	return strings.TrimRight(own[:min(len(own), 20-AddedTail)], "-") + "-"
}

// AddedTail is how many characters tell the servers of one offer apart: "-" and
// seven.
const AddedTail = 8
