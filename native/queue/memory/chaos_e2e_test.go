//go:build e2e

package memory_test

import (
	"testing"

	"github.com/toolgate/toolgate/native/queue/queuetest"
)

func TestChaos(t *testing.T) { queuetest.Chaos(t, open) }
