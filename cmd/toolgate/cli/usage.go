package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/spelling"
)

// This file explains what is wrong with a command line and what to write instead.

// explainUsage makes a command and its subcommands explain their usage after a mistake. A
// command that only groups others prints its help, or says that the subcommand does not
// exist.
func explainUsage(c *cobra.Command) {
	for _, sub := range c.Commands() {
		explainUsage(sub)
	}
	if c.HasSubCommands() && !c.Runnable() {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return noCommand(c, args[0])
		}
		return
	}
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return failure.Newf(failure.Usage, "`%s` %s; write `%s`%s", c.CommandPath(), argsFault(err), strings.TrimSuffix(c.UseLine(), " [flags]"), seeHelp(c))
			}
			return nil
		}
	}
}

// noCommand says that there is no such command, and which one may have been meant.
func noCommand(c *cobra.Command, name string) error {
	var similar, same *cobra.Command
	for _, sub := range c.Commands() {
		if similar == nil && sub.IsAvailableCommand() && spelling.Similar(name, sub.Name()) {
			similar = sub
		}
		if slices.Contains(otherNames[sub.Name()], name) {
			same = sub
		}
	}
	hint := ""
	if meant := cmp.Or(same, similar); meant != nil {
		hint = fmt.Sprintf("; did you mean `%s`?", meant.CommandPath())
	}
	return failure.Newf(failure.Usage, "there is no command `%s %s`%s%s", c.CommandPath(), name, hint, seeHelp(c))
}

// otherNames are what other programs call these commands.
var otherNames = map[string][]string{
	"import": {"init", "setup"}, "ls": {"list", "ps"}, "top": {"watch", "ui", "dashboard"}, "doctor": {"check", "debug"}, "remove": {"delete"},
}

// explainHelp makes the help command say that a command does not exist.
func explainHelp(root *cobra.Command) {
	help, _, err := root.Find([]string{"help"})
	if err != nil || help.Run == nil {
		return
	}
	show := help.Run
	help.Run = nil
	help.RunE = func(c *cobra.Command, args []string) error {
		if about, rest, err := root.Find(args); err == nil && len(rest) > 0 && about.HasSubCommands() {
			return noCommand(about, rest[0])
		}
		show(c, args)
		return nil
	}
}

// argsFault says how many arguments are wrong.
func argsFault(err error) string {
	text := err.Error()
	var least, most, got int
	switch {
	case strings.HasPrefix(text, "unknown command "):
		return "takes no arguments"
	case strings.HasPrefix(text, "requires at least 1 "):
		return "lacks an argument"
	}
	if n, _ := fmt.Sscanf(text, "requires at least %d arg(s), only received %d", &least, &got); n == 2 {
		return fmt.Sprintf("takes at least %d arguments, not %d", least, got)
	}
	if n, _ := fmt.Sscanf(text, "accepts at most %d arg(s), received %d", &most, &got); n == 2 {
		return fmt.Sprintf("takes at most %d argument, not %d", most, got)
	}
	if n, _ := fmt.Sscanf(text, "accepts %d arg(s), received %d", &most, &got); n == 2 {
		return fmt.Sprintf("takes %d argument, not %d", most, got)
	}
	if n, _ := fmt.Sscanf(text, "accepts between %d and %d arg(s), received %d", &least, &most, &got); n == 3 {
		return fmt.Sprintf("takes %d to %d arguments, not %d", least, most, got)
	}
	return text
}

// flagError explains a flag that cannot be read.
func flagError(c *cobra.Command, err error) error {
	text := err.Error()
	name, ok := strings.CutPrefix(text, "unknown flag: --")
	if !ok {
		return failure.Newf(failure.Usage, "%s%s", flagFault(c, text), seeHelp(c))
	}
	hint := ""
	for _, known := range flagNames.FindAllStringSubmatch(c.Flags().FlagUsages(), -1) {
		if hint == "" && spelling.Similar(name, known[1]) {
			hint = "; did you mean --" + known[1] + "?"
		}
	}
	return failure.Newf(failure.Usage, "`%s` has no flag --%s%s%s", c.CommandPath(), name, hint, seeHelp(c))
}

// flagFault says in our words what pflag has found.
func flagFault(c *cobra.Command, text string) string {
	var flag, value string
	if letter, ok := strings.CutPrefix(text, "unknown shorthand flag: "); ok {
		letter, _, _ = strings.Cut(letter, " in ")
		return fmt.Sprintf("`%s` has no flag -%s", c.CommandPath(), strings.Trim(letter, "'"))
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: "); ok {
		if _, within, shorthand := strings.Cut(name, " in "); shorthand {
			name = within
		}
		return name + " needs a value"
	}
	if found := invalidValue.FindStringSubmatch(text); found != nil {
		value, flag = found[1], found[2]
		switch {
		case strings.Contains(text, "time: "):
			return fmt.Sprintf("%s is not a time for %s; write a number with a unit, such as 30s, 5m or 2h", value, flag)
		case strings.Contains(text, "strconv.ParseBool"):
			return fmt.Sprintf("%s is neither true nor false, for %s", value, flag)
		case strings.Contains(text, "strconv."):
			return fmt.Sprintf("%s is not a whole number for %s", value, flag)
		case strings.Contains(text, "must be formatted as key=value"):
			return fmt.Sprintf("%s is not NAME=VALUE, for %s", value, flag)
		}
	}
	return text
}

// invalidValue matches what pflag says about the value of a flag.
var invalidValue = regexp.MustCompile(`^invalid argument (".*") for "(?:-\w, )?(--[a-z-]+)" flag: `)

// flagNames matches the names of flags in their descriptions.
var flagNames = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)

func seeHelp(c *cobra.Command) string { return fmt.Sprintf("; see `%s --help`", c.CommandPath()) }
