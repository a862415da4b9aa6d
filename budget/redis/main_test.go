package redis_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/testwait"
)

func TestMain(m *testing.M) {
	testwait.AtOnce(0, 24)
	goleak.VerifyTestMain(m)
}
