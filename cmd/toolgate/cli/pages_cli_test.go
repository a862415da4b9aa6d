package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolgate/toolgate/cmd/toolgate/man"
)

// writeCommands writes the page of all commands.
func writeCommands(w io.Writer) error {
	root := newRoot()
	root.InitDefaultHelpCmd()
	var b strings.Builder
	b.WriteString("# Commands\n\nThis page is generated from the program (`go generate ./cmd/toolgate/cli`); `toolgate COMMAND --help`\nprints the same. " + exitCodesText() + "\n")
	err := man.Each(root, func(c *cobra.Command) error {
		fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(&b, "%s\n", text)
		if c.Runnable() {
			fmt.Fprintf(&b, "\n    %s\n", c.UseLine())
		}
		if c.Example != "" {
			b.WriteString("\nExamples:\n\n")
			for line := range strings.SplitSeq(c.Example, "\n") {
				fmt.Fprintf(&b, "    %s\n", strings.TrimPrefix(line, "  "))
			}
		}
		title := "\n| flag | meaning |\n|---|---|\n"
		flags := c.NonInheritedFlags()
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0s" && f.DefValue != "0" && f.Name != "output" {
				usage += " (" + f.DefValue + ")"
			}
			fmt.Fprintf(&b, "%s| `%s` | %s |\n", title, man.Flag(f, value), strings.ReplaceAll(usage, "|", `\|`))
			title = ""
		})
		return nil
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// Every command has a manual page, which a formatter that is there takes without a
// word.
func TestManualPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := newRoot()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "toolgate*.1"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if known := strings.HasPrefix(line, ".TH ") || strings.HasPrefix(line, ".SH ") || strings.HasPrefix(line, ".B ") || strings.HasPrefix(line, ".BR ") ||
				line == ".PP" || line == ".TP" || line == ".nf" || line == ".fi"; strings.HasPrefix(line, ".") && !known || strings.HasPrefix(line, "'") {
				t.Errorf("%s:%d: %q would be a request", page, i+1, line)
			}
		}
		for _, section := range []string{".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH EXIT STATUS\n"} {
			if !strings.Contains(string(text), section) {
				t.Errorf("%s lacks %q", page, section)
			}
		}
	}
	formatter, missing := exec.LookPath("groff")
	if missing != nil {
		return
	}
	if out, err := exec.CommandContext(t.Context(), formatter, slices.Concat([]string{"-man", "-Tutf8", "-ww", "-z"}, pages)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
