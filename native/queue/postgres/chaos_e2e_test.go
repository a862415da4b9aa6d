//go:build e2e && !windows

package postgres_test

import (
	"testing"

	"github.com/toolgate/toolgate/native/queue/queuetest"
)

func TestChaos(t *testing.T) { queuetest.Chaos(t, open) }
