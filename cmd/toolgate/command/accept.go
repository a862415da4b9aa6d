package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/logs"
)

// Accept records that a text of a configuration may run.
func Accept(path, sum string) error {
	state, err := statedir.Open(path)
	if err != nil {
		return err
	}
	return state.Accept(sum)
}

// AcceptWritten records that a text which toolgate has just written may run, if the text
// before it might, or if there was none. So adding a server to the file of somebody else
// does not accept the rest of it.
func AcceptWritten(path string, before, after []byte) error {
	state, err := statedir.Open(path)
	if err != nil {
		return err
	}
	if before != nil {
		if ok, err := state.Accepted(config.Sum(before)); err != nil || !ok {
			return err
		}
	}
	return state.Accept(config.Sum(after))
}

// named tells whether somebody chose the configuration of this command.
func named(o *Options) bool { return o.Config != "" || os.Getenv("TOOLGATE_CONFIG") != "" }

// Accepted tells whether a configuration may run: somebody named it, it is in the user's own
// folder, or its user has accepted it as it is now.
func Accepted(o *Options, c *config.Config, state *statedir.Dir) (bool, error) {
	if c.Path == "" || named(o) || c.Path != config.FileName || inConfigFolder(c.Path) {
		return true, nil
	}
	return state.Accepted(c.Sum)
}

// AcceptedFiles returns the absolute paths of the files of a configuration, which its user
// has accepted as they are now. That somebody names a file is not enough, because whoever
// starts it asks nobody.
func (o *Options) AcceptedFiles() ([]string, error) {
	path, err := o.FindFile()
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, failure.Newf(failure.Config, "there is no %s in this folder; name a file", config.FileName)
	}
	paths := append([]string{path}, o.With...)
	for i := range paths {
		if paths[i], err = filepath.Abs(paths[i]); err != nil {
			return nil, failure.New(failure.Config, err)
		}
	}
	o.With = paths[1:]
	c, err := o.ReadConfigWith(paths[0], nil)
	if err != nil {
		return nil, err
	}
	for _, file := range append([]config.Source{{Path: paths[0], Sum: c.Sum}}, c.With...) {
		state, err := statedir.Find(file.Path)
		if err != nil {
			return nil, err
		}
		if ok, err := state.Accepted(file.Sum); err != nil || !ok && !inConfigFolder(file.Path) {
			return nil, cmp.Or(err, failure.Newf(failure.Config, "%s is not accepted as it is now; read it, then run `toolgate trust %s`", file.Path, file.Path))
		}
	}
	return paths, nil
}

// OpenState opens the state folder of a configuration that a command is about to run, or
// returns what [MayRun] does.
func OpenState(o *Options, c *config.Config) (*statedir.Dir, error) {
	state, err := statedir.Open(c.Path)
	if err != nil {
		return nil, err
	}
	return state, MayRun(o, c, state)
}

// MayRun returns an error if the configuration was found in the working folder and its
// user has not accepted it. On a terminal it asks. What runs is accepted by that.
func MayRun(o *Options, c *config.Config, state *statedir.Dir) error {
	ok, err := Accepted(o, c, state)
	if err != nil {
		return err
	}
	if ok {
		return state.AcceptFiles(c)
	}
	output.Note("%s would run:\n%s", c.Path, strings.Join(Runs(c), "\n"))
	if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stderr.Fd())) {
		return failure.Newf(failure.Config, "%s in this folder may be somebody else's and is not accepted as it is now; read it, then run `toolgate trust`, or name it with -c %s", c.Path, c.Path)
	}
	answer, err := promptInput("", fmt.Sprintf("%s in this folder is not accepted as it is now. Run it? [y/N]", c.Path), false)
	if err != nil {
		return failure.Newf(failure.Config, "%s is not run: %w", c.Path, err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return failure.Newf(failure.Config, "%s is not run; `toolgate trust` accepts it", c.Path)
	}
	return state.AcceptFiles(c)
}

// inConfigFolder tells whether a file is the one in the user's configuration folder.
func inConfigFolder(path string) bool {
	dir, err := os.UserConfigDir()
	if err != nil {
		return false
	}
	own, err := os.Stat(filepath.Join(dir, "toolgate", config.FileName))
	if err != nil {
		return false
	}
	it, err := os.Stat(path)
	return err == nil && os.SameFile(own, it)
}

// acceptedHere returns the configuration of the working folder if its user has accepted
// it as it is now; empty otherwise.
func acceptedHere() (string, error) {
	text, err := format.ReadFile(config.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", failure.New(failure.Config, err)
	}
	state, err := statedir.Find(config.FileName)
	if err != nil {
		return "", err
	}
	if ok, err := state.Accepted(config.Sum(text)); !ok || err != nil {
		return "", err
	}
	return config.FileName, nil
}

// maxRuns bounds how many lines say what a configuration runs.
const maxRuns = 30

// Runs says what a configuration starts and reaches, in lines for a terminal.
func Runs(c *config.Config) []string {
	var out []string
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Disabled {
			continue
		}
		what := "reaches  " + s.Written.URL
		if s.Written.Command != "" {
			what = "starts   " + strings.Join(append([]string{s.Written.Command}, s.Written.Args...), " ")
		}
		out = append(out, fmt.Sprintf("%-12s %s", logs.Printable(s.Key), logs.Printable(what)))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Toolgate.Native.Plugins)) {
		out = append(out, fmt.Sprintf("%-12s starts   a plugin", logs.Printable(name)))
	}
	if n := len(c.Toolgate.Tools); n > 0 {
		out = append(out, fmt.Sprintf("%-12s %d declared", "tools", n))
	}
	if more := len(out) - maxRuns; more > 0 {
		out = append(out[:maxRuns], fmt.Sprintf("and %d more", more))
	}
	return out
}

// promptInput asks for a value that a file leaves to its user, if there is a user to ask.
func promptInput(id, description string, password bool) (string, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", errors.New("nobody can be asked, because stdin is not a terminal; run the command on a terminal, or write ${NAME} instead and set that variable")
	}
	if description == "" {
		description = id
	}
	output.Ask(description)
	return screen.ReadLine(os.Stdin, password)
}
