package declared

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/placeholder"
)

// argv is the list of arguments of a command. Each element is one argument,
// whatever its places get.
type argv []element

type element struct {
	placeholder.Text

	begins bool // with a place, so that a value could make a flag of it
	path   bool // holds a separator besides its places, which are within segments then
	dashes bool // values may begin with a dash
}

// interpreters run what an argument says. The names of some of them carry a
// version.
var interpreters = []string{
	"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox", "powershell", "pwsh",
	"python", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "awk", "gawk", "mawk", "osascript", "tclsh", "expect", "su",
	"rscript", "julia", "elixir", "groovy", "guile", "raku", "tsx", "ts-node", "qjs",
}

// joining make one text of all their arguments, for a shell to read.
var joining = []string{"ssh", "cmd", "watch"}

func interpreter(program string, of []string) bool {
	name := strings.ToLower(filepath.Base(strings.ReplaceAll(program, `\`, "/")))
	name = strings.TrimRight(strings.TrimSuffix(name, ".exe"), "0123456789.-")
	return slices.Contains(of, name)
}

func parseArgv(args, dashes []string) (argv, error) {
	var out argv
	var wrong []error
	runs, remote := false, false // an interpreter is among the arguments before; it reads all that follows
	for i, text := range args {
		t, err := placeholder.ParseText(text)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		e := element{Text: t, begins: len(t) > 0 && t[0].Place}
		for _, p := range t {
			switch {
			case p.Place && i == 0:
				wrong = append(wrong, errors.New("the program has a place; it is fixed"))
			case p.Place && slices.Contains(dashes, p.Text):
				e.dashes = true
			case !p.Place && strings.ContainsAny(p.Text, `/\`):
				e.path = true
			}
		}
		before := args[min(1, i):i]
		if e.glued() {
			before = append(slices.Clone(before), strings.TrimRight(t[0].Text, "=:"))
		}
		if len(t.Names()) > 0 && (remote || runs && code(before)) {
			wrong = append(wrong, fmt.Errorf("%q would be run as code or given to it by an interpreter; write the value into its stdin or into a file of your own program's", text))
		}
		if len(t.Names()) == 0 {
			runs = runs || interpreter(text, interpreters)
			remote = remote || interpreter(text, joining)
		}
		out = append(out, e)
	}
	return out, errors.Join(wrong...)
}

// glued tells whether a value stands in one argument with the option that it is of,
// as in --eval={x} or -e{x}.
func (e *element) glued() bool {
	return len(e.Text) > 1 && !e.Text[0].Place && strings.HasPrefix(e.Text[0].Text, "-")
}

// code tells whether arguments have an interpreter take code from those after
// them: what comes after code can be read by it in ways of its own.
func code(before []string) bool {
	return slices.ContainsFunc(before, func(arg string) bool {
		switch strings.ToLower(arg) {
		case "--eval", "--execute", "-command", "-encodedcommand", "-c", "-e", "-r", "-p", "--print", "eval":
			return true
		}
		// -lc, -ec and the like
		return len(arg) > 1 && len(arg) < 6 && arg[0] == '-' && arg[1] != '-' && (strings.HasSuffix(arg, "c") || strings.HasSuffix(arg, "e"))
	})
}

func (a argv) names() []string {
	var out []string
	for _, e := range a {
		out = append(out, e.Text.Names()...)
	}
	return out
}

// fill returns the arguments with values in their places.
func (a argv) fill(v placeholder.Values) ([]string, error) {
	out := make([]string, len(a))
	for i, e := range a {
		var err error
		if out[i], err = e.fill(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *element) fill(v placeholder.Values) (string, error) {
	text, err := e.Text.Fill(v)
	if err != nil {
		return "", err
	}
	if e.begins && !e.dashes && flag(text) {
		return "", placeholder.Problemf("The argument %s may not begin with a dash here: it would be an option of the program.", e.Text[0].Text)
	}
	if e.path {
		return text, e.within(v)
	}
	return text, nil
}

func flag(text string) bool {
	return strings.HasPrefix(text, "-") || runtime.GOOS == "windows" && strings.HasPrefix(text, "/")
}

// within checks the values of an argument that is a path: each stays within the
// segment that it is in, and makes no segment that leads elsewhere.
func (e *element) within(v placeholder.Values) error {
	var segment strings.Builder
	place := ""
	end := func() error {
		name := segment.String()
		segment.Reset()
		was := place
		if place = ""; was != "" && (name == "" || strings.Trim(name, ". ") == "") {
			return placeholder.Problemf("The argument %s is part of a path and may not be empty or dots alone.", was)
		}
		return nil
	}
	for _, p := range e.Text {
		if p.Place {
			text, err := v.Text(p.Text)
			if err != nil {
				return err
			}
			if strings.ContainsAny(text, `/\`) || text == ".." || runtime.GOOS == "windows" && strings.Contains(text, ":") {
				return placeholder.Problemf("The argument %s is part of a path and may not hold slashes or be two dots.", p.Text)
			}
			if text == "" {
				return placeholder.Problemf("The argument %s is part of a path and may not be empty.", p.Text)
			}
			segment.WriteString(text)
			place = p.Text
			continue
		}
		for _, c := range p.Text {
			if c != '/' && c != '\\' {
				segment.WriteRune(c)
			} else if err := end(); err != nil {
				return err
			}
		}
	}
	return end()
}

// stdinOf is what a command reads: the text of a string, or JSON.
func stdinOf(b *placeholder.Value, v placeholder.Values, args []byte) ([]byte, error) {
	raw, there, err := b.Append(nil, v, args)
	if err != nil || !there {
		return nil, err
	}
	if text, err := mcp.Unquote(raw); err == nil {
		return []byte(text), nil
	}
	return raw, nil
}
