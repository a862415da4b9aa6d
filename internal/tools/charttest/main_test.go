package charttest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const (
	root  = "../../.."
	chart = root + "/examples/deploy/chart"
)

// program is toolgate, built from this tree.
var program string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "charttest")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "toolgate")
	if out, err := exec.Command("go", "-C", root, "build", "-o", program, "./cmd/toolgate").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build toolgate: %w\n%s", err, out)
	}
	return m.Run(), nil
}
