//go:build e2e

package matrix

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/raced"
)

var (
	update   = flag.Bool("update", false, "write the table into docs/compatibility.md")
	only     = flag.String("feature", "", "run only the features whose name contains this; the page is left alone")
	all      = flag.Bool("all", false, "show every cell that does not work yet, not just three of a feature")
	trace    = flag.Bool("trace", false, "write the gateway's log to stderr")
	whole    = flag.Bool("whole", raced.On, "run every cell of every matrix, as under the race detector")
	calls    = flag.Int("calls", 400, "how many interleaved calls are made")
	seed     = flag.Uint64("seed", 0, "the order of the interleaved calls; 0 is another one every time")
	cellTime = flag.Duration("cell", time.Minute, "the longest that one cell may take")
)

func TestMain(m *testing.M) {
	if spec, ok := os.LookupEnv(childVariable); ok {
		os.Exit(runChild(spec))
	}
	os.Exit(m.Run())
}
