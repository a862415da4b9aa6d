package mcp

import "bytes"

// BlockType returns the type of a validated content block, nil when it has none. It may
// share the memory of the block.
func BlockType(block []byte) []byte {
	token := Lookup(block, "type")
	if len(token) == 0 || token[0] != '"' {
		return nil
	}
	if bytes.IndexByte(token, '\\') >= 0 {
		return []byte(unescape(token[1 : len(token)-1]))
	}
	return token[1 : len(token)-1]
}
