package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// maxCommands is how many commands a person has to read in `toolgate --help` at most.
const maxCommands = 35

// The help of toolgate lists its commands in groups, and not too many of them.
func TestHelp(t *testing.T) {
	root := newRoot()
	root.InitDefaultHelpCmd()
	var out bytes.Buffer
	root.SetOut(&out)
	if err := root.Help(); err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, c := range root.Commands() {
		line := "\n  " + c.Name() + " "
		shown := strings.Contains(out.String(), line)
		if c.IsAvailableCommand() {
			listed++
		}
		if shown != c.IsAvailableCommand() {
			t.Errorf("help shows %s: %v", c.Name(), shown)
		}
		if shown && c.GroupID == "" {
			t.Errorf("%s is in no group", c.Name())
		}
	}
	if listed == 0 || listed > maxCommands {
		t.Errorf("help lists %d commands; at most %d are allowed, so let one of them be a part of another, or hide it", listed, maxCommands)
	}
}

// usageTemplate edits the text of a library. Where that has changed, it has to be looked at
// again.
func TestUsageTemplate(t *testing.T) {
	cobras := (&cobra.Command{}).UsageTemplate()
	const condition, places = `(or .IsAvailableCommand (eq .Name "help"))`, 3
	if n := strings.Count(cobras, condition); n != places {
		t.Errorf("cobra's template has %q %d times, and usageTemplate was written for %d:\n%s", condition, n, places, cobras)
	}
	if ours := usageTemplate(cobras); strings.Contains(ours, `"help"`) || strings.Count(ours, ".IsAvailableCommand") < places {
		t.Errorf("usageTemplate leaves the help command in:\n%s", ours)
	}
}
