package mcp

import "strings"

var (
	toToken   = strings.NewReplacer("~", "~0", "/", "~1")
	fromToken = strings.NewReplacer("~1", "/", "~0", "~")
)

// PointerToken returns the name of a member as a token of a JSON Pointer (RFC 6901).
func PointerToken(name string) string { return toToken.Replace(name) }

// PointerName returns the name of a member that a token of a JSON Pointer stands for.
func PointerName(token string) string { return fromToken.Replace(token) }
