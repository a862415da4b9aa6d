//go:build bench

package build

import "os"

// What internal/bench says is kept: "nothing", "no executions", or everything.
var (
	KeepsRecords = os.Getenv("BENCH_KEEPS") != "nothing"
	Executed     = os.Getenv("BENCH_KEEPS") == ""
)
