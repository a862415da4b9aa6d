package cli

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/toolgate/toolgate/internal/raced"
)

// What is initialised before main is collected once at most, when the floor of the
// heap is made: a command that does little spends a third of its time on it
// otherwise.
func TestStartCollectsOnce(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), program, "version")
	cmd.Env = []string{"GODEBUG=gctrace=1", "HOME=" + t.TempDir()}
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	most := 1
	if raced.On {
		most = 2 // what it brings along lies on the heap too
	}
	if n := len(regexp.MustCompile(`(?m)^gc \d+ @`).FindAll(text, -1)); n == 0 || n > most {
		t.Errorf("%d collections, want 1 to %d:\n%s", n, most, text)
	}
}
