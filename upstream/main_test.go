package upstream

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/testwait"
)

// childVariable names the part that the test binary plays when it is started
// as somebody's child.
const childVariable = "TOOLGATE_TEST_CHILD"

// reexec holds the parts, by name. Test files add theirs in init. A part that
// returns exits with code 0.
var reexec = map[string]func(){}

func TestMain(m *testing.M) {
	if name, ok := os.LookupEnv(childVariable); ok {
		part, ok := reexec[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "no test child is called %q\n", name)
			os.Exit(97)
		}
		part()
		os.Exit(0)
	}
	testwait.AtOnce(8, 24)
	goleak.VerifyTestMain(m)
}

// raceSetting keeps the race detector from sleeping a second at each exit.
const raceSetting = "GORACE=atexit_sleep_ms=0"
