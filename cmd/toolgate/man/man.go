// Package man writes the manual pages of a command line, for those who package the program.
package man

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolgate/toolgate/internal/version"
)

// Write writes a page for a command and each one below it that people see into a folder,
// which it makes. exitStatus says what the exit codes mean.
func Write(dir string, root *cobra.Command, exitStatus string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { // manual pages are for everybody
		return err
	}
	return Each(root, func(c *cobra.Command) error {
		name := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		return os.WriteFile(name, []byte(page(c, exitStatus)), 0o644) // manual pages are for everybody
	})
}

// Each calls do with a command and all below it that people see, in order.
func Each(c *cobra.Command, do func(*cobra.Command) error) error {
	if err := do(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			if err := Each(sub, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// page returns the manual page of a command (man(7)).
func page(c *cobra.Command, exitStatus string) string {
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
			b.WriteString(title + ".TP\n.B " + roff(Flag(f, value)) + "\n" + roff(usage) + "\n")
			title = ""
		})
	}
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n.nf\n" + roff(c.Example) + "\n.fi\n")
	}
	b.WriteString(".SH EXIT STATUS\n" + roff(exitStatus) + "\n")
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

// Flag returns how a flag is written, with the name of its value.
func Flag(f *pflag.Flag, value string) string {
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
