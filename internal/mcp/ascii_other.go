//go:build !amd64

package mcp

// plainText returns how many bytes at the start of b, by 32, are plain within a string. It may
// stop before the first that is not, or before the last that are less than 32.
func plainText(b []byte) int { return plainWords(b) }
