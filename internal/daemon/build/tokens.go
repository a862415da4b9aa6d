package build

import (
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// ToolTokens approximates how many tokens a listed tool costs a model: its name,
// description and input schema as part of a prompt.
func ToolTokens(raw []byte) int { return tokens(raw, len(mcp.Lookup(raw, "name"))) }

func tokens(raw []byte, name int) int {
	size := len(`{"name":,"description":,"input_schema":},`) + name
	for _, key := range []string{"description", "inputSchema"} {
		size += len(mcp.Lookup(raw, key))
	}
	return schemas.Tokens(size)
}

// ListingTokens approximates how many tokens the tools of a server cost under their
// exposed names.
func ListingTokens(l *mcp.Listing, namespace, server string) int {
	if l == nil {
		return 0
	}
	total := 0
	for i := range l.Items[mcp.Tool] {
		item := &l.Items[mcp.Tool][i]
		total += tokens(item.Raw, len(names.Exposed(namespace, server, item.Key, false))+len(`""`))
	}
	return total
}
