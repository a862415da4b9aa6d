//go:build e2e

package kafka_test

import (
	"testing"

	"github.com/toolgate/toolgate/native/queue/queuetest"
)

func TestChaos(t *testing.T) { queuetest.Chaos(t, open) }
