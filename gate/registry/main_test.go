package registry_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/store/storetest"
)

// shared is the PostgreSQL server of all tests that do not hurt theirs.
var shared storetest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Println("stop the PostgreSQL of the tests:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}
