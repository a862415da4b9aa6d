//go:build !windows

package cluster

import (
	"os"
	"testing"

	"github.com/toolgate/toolgate/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m, &postgres)) }
