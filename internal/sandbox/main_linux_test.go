//go:build amd64 || arm64

package sandbox

import (
	"os"
	"syscall"
	"testing"
)

// TestMain also is the program that is confined: the tests run this binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == childMark {
		// Where /proc is hidden the race detector reads no setting, and would wait for a second.
		syscall.Exit(doDeed(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// childMark is the first argument of this binary as a child.
const childMark = "confined-child"
