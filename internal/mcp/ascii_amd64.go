package mcp

import "golang.org/x/sys/cpu"

// plainText returns how many bytes at the start of b, by 32, are plain within a string. It may
// stop before the first that is not, or before the last that are less than 32.
func plainText(b []byte) int {
	if !cpu.X86.HasAVX2 {
		return plainWords(b)
	}
	return plainAVX2(b)
}

// plainAVX2 is plainText by 32 bytes at a time (ascii_amd64.s).
//
//go:noescape
func plainAVX2(b []byte) int
