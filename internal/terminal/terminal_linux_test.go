package terminal

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

func TestTerminal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `test -t 0 && test -t 1 && test -t 2 && stty size; printf 'name? '; read -r name; printf '\033]0;done\a'; echo "hello $name"`)
	term, err := Start(cmd, 91, 17)
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, time.Minute, "the question", func() bool { return strings.HasSuffix(Text(term.Lines()), "name?\n") })
	if err := term.Type("you\n"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, time.Minute, "the answer", func() bool { return strings.Contains(Text(term.Lines()), "hello you") })
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := Text(term.Lines()); got != "17 91\nname? you\nhello you\n" || term.Title() != "done" {
		t.Errorf("title %q, lines %q", term.Title(), got)
	}
	term.Clear()
	if got := Text(term.Lines()); got != "" {
		t.Errorf("cleared, and shows %q", got)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Start(exec.CommandContext(ctx, "/there/is/no/program"), 80, 24); err == nil {
		t.Error("a program that is not there starts")
	}
}
