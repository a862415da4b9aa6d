package build

import (
	"strings"

	"github.com/toolgate/toolgate/config"
)

// AddedPrefix returns the common prefix of the namespaces of an offer's servers.
func AddedPrefix(offer string) string {
	own := config.Namespace(offer)
	return strings.TrimRight(own[:min(len(own), 20-AddedTail)], "-") + "-"
}

// DynamicPrefix is the common prefix of the namespaces of tools that agents register.
const DynamicPrefix = "dynamic-"

// AddedTail is the length of the suffix that distinguishes the servers of one offer:
// "-" and seven characters.
const AddedTail = 8
