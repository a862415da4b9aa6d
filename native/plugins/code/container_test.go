package code_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
)

// TestMain is also a runtime of containers that runs none: it writes down what it is
// asked for, beside itself.
func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err == nil && filepath.Base(self) == "fake-runtime" {
		os.Exit(fakeRuntime(filepath.Dir(self)))
	}
	testwait.AtOnce(0, 24)
	os.Exit(m.Run())
}

// asked is one start of the runtime.
type asked struct {
	Args  []string
	Stdin string
	Env   []string
}

func fakeRuntime(dir string) int {
	stdin, _ := io.ReadAll(os.Stdin)
	line, _ := json.Marshal(asked{Args: os.Args[1:], Stdin: string(stdin), Env: os.Environ()})
	f, err := os.OpenFile(filepath.Join(dir, "asked"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 125
	}
	defer f.Close()
	fmt.Fprintf(f, "%s\n", line)
	if strings.Contains(string(stdin), "hang") {
		r, _, _ := os.Pipe() // whose other end nobody closes
		_, _ = r.Read(make([]byte, 1))
	}
	if slices.Contains(os.Args, "rm") {
		return removing(dir)
	}
	fmt.Println("from the container")
	return 7
}

// removing fails as often as the file busy has bytes, and then says what the file says has.
func removing(dir string) int {
	busy := filepath.Join(dir, "busy")
	if data, err := os.ReadFile(busy); err == nil && len(data) > 0 {
		if os.WriteFile(busy, data[1:], 0o600) != nil {
			return 125
		}
		fmt.Fprintln(os.Stderr, "the container is busy")
		return 1
	}
	if said, err := os.ReadFile(filepath.Join(dir, "says")); err == nil {
		fmt.Fprintln(os.Stderr, string(said))
		return 1
	}
	return 0
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, 0o755))
}
