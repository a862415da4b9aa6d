package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/version"
)

// newMan writes manual pages for those who package the program.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a folder",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { // manual pages are for everybody
				return failure.New(failure.Config, err)
			}
			return eachCommand(cmd.Root(), func(c *cobra.Command) error {
				name := filepath.Join(args[0], strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
				return failure.New(failure.Config, os.WriteFile(name, []byte(manPage(c)), 0o644)) // manual pages are for everybody
			})
		},
	}
}

// eachCommand calls do with a command and all below it that people see, in order.
func eachCommand(c *cobra.Command, do func(*cobra.Command) error) error {
	if err := do(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			if err := eachCommand(sub, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// manPage is the manual page of a command (man(7)).
func manPage(c *cobra.Command) string {
	var b strings.Builder
	path := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"toolgate %s\" \"toolgate\"\n", roff(strings.ToUpper(path)), roff(version.Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(path), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	b.WriteString(".SH DESCRIPTION\n")
	for i, paragraph := range strings.Split(long, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		b.WriteString(roff(paragraph) + "\n")
	}
	for _, set := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"OPTIONS", c.NonInheritedFlags()}, {"GLOBAL OPTIONS", c.InheritedFlags()}} {
		title := ".SH " + set.title + "\n"
		set.flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			b.WriteString(title + ".TP\n.B " + roff(flagText(f, value)) + "\n" + roff(usage) + "\n")
			title = ""
		})
	}
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n.nf\n" + roff(c.Example) + "\n.fi\n")
	}
	b.WriteString(".SH EXIT STATUS\n" + roff(exitCodesText()) + "\n")
	title := ".SH SEE ALSO\n"
	if c.HasParent() {
		b.WriteString(title + ".BR " + roff(strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")) + " (1)\n")
		title = ""
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			b.WriteString(title + ".BR " + roff(strings.ReplaceAll(sub.CommandPath(), " ", "-")) + " (1)\n")
			title = ""
		}
	}
	return b.String()
}

// flagText is how a flag is written.
func flagText(f *pflag.Flag, value string) string {
	text := "--" + f.Name
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", " + text
	}
	if value != "" {
		text += " " + value
	}
	return text
}

// roff writes a text so that nothing in it is a request or an escape.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
