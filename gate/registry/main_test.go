package registry_test

import (
	"os"
	"testing"

	"github.com/toolgate/toolgate/internal/store/storetest"
)

// shared is the PostgreSQL server of all tests that do not hurt theirs.
var shared storetest.Server

func TestMain(m *testing.M) {
	os.Exit(storetest.Main(m, &shared))
}
