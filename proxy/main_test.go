package proxy

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the goldens of testdata/wire anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
