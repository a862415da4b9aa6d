package declared

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/testwait"
)

// childMark is the first argument of this binary as a command.
const childMark = "declared-child"

// TestMain also is the program that commands run.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == childMark {
		playProgram(os.Args[2], os.Args[3:])
		// Where /proc is hidden the race detector reads no setting, and would wait for a second.
		syscall.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func playProgram(what string, args []string) {
	switch what {
	case "args":
		_ = json.NewEncoder(os.Stdout).Encode(args)
	case "env":
		dir, _ := os.Getwd()
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"env": os.Environ(), "dir": dir})
	case "stdin":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "fail":
		fmt.Print("half an answer ", args)
		fmt.Fprint(os.Stderr, "it broke, and the token is ", os.Getenv("TOKEN"))
		os.Exit(3)
	case "flood":
		line := strings.Repeat("x", 1<<16)
		for range 64 {
			fmt.Print(line)
		}
	case "hang":
		tree := exec.Command(os.Args[0], childMark, "sleep")
		tree.Stdout = os.Stdout // which stays open as long as it lives
		if err := tree.Start(); err != nil {
			os.Exit(4)
		}
		fmt.Println(tree.Process.Pid)
		testwait.Hang()
	case "sleep":
		testwait.Hang()
	case "read", "write":
		var err error
		if what == "read" {
			_, err = os.ReadFile(args[0])
		} else {
			err = os.WriteFile(args[0], []byte("x"), 0o600)
		}
		if err != nil {
			fmt.Print("refused")
			return
		}
		fmt.Print("done")
	}
}
