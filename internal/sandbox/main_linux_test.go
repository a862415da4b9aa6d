//go:build amd64 || arm64

package sandbox

import (
	"os"
	"testing"
)

// TestMain also is the program that is confined: the tests run this binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == childMark {
		os.Exit(doDeed(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// childMark is the first argument of this binary as a child.
const childMark = "confined-child"
