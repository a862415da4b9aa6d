package main

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// dir has what the tests share; it is empty until one needs it.
var dir string

// TestMain makes the test binary the programs too, as the runner starts its
// own binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && programs[os.Args[1]] != nil {
		exit(programs[os.Args[1]](context.Background(), os.Args[2:]))
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir != "" {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}
