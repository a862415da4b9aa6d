package build

import (
	"github.com/toolgate/toolgate/internal/mcp"
)

// bytesPerToken is the average number of bytes per token in JSON tool definitions,
// measured over real servers with current tokenizers.
const bytesPerToken = 4.5

// ToolTokens approximates how many tokens a listed tool costs a model: its name,
// description and input schema as part of a prompt.
func ToolTokens(raw []byte) int {
	size := len(`{"name":,"description":,"input_schema":},`)
	for _, key := range []string{"name", "description", "inputSchema"} {
		size += len(mcp.Lookup(raw, key))
	}
	return int(float64(size)/bytesPerToken + 0.5)
}

func ListingTokens(l *mcp.Listing) int {
	if l == nil {
		return 0
	}
	total := 0
	for i := range l.Items[mcp.Tool] {
		total += ToolTokens(l.Items[mcp.Tool][i].Raw)
	}
	return total
}
