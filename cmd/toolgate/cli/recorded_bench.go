//go:build bench

package cli

import "os"

// What internal/bench says is kept: "nothing", "no executions", or everything.
var (
	keepsRecords = os.Getenv("BENCH_KEEPS") != "nothing"
	executed     = os.Getenv("BENCH_KEEPS") == ""
)
