package proxy

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/testwait"
)

var update = flag.Bool("update", false, "write the goldens of testdata/wire anew")

func TestMain(m *testing.M) {
	testwait.AtOnce(8, 24)
	goleak.VerifyTestMain(m)
}
