package service

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/failure"
)

const (
	// written is in the head of every unit that toolgate has written.
	written = "Written by `toolgate service install`, which may overwrite it."
	about   = "toolgate, an MCP gateway"
	// stopSeconds is how long a gateway may take to finish its calls when it ends.
	stopSeconds = 40
	// maxUnit is more than any unit has.
	maxUnit = 64 << 10
)

// gateway is what a unit starts.
type gateway struct {
	program string      // absolute, like files
	files   []string    // of the configuration; the first names it
	env     [][2]string // names and values, none of them a secret
	home    string
}

// args are the arguments of the program.
func (g gateway) args() []string {
	if len(g.files) == 1 {
		return []string{"up", "-c", g.files[0]}
	}
	return append([]string{"up"}, g.files...)
}

// passed are the variables of this process that a unit repeats: where programs are, and
// where toolgate keeps what is its own. A service would have other values.
var passed = []string{"PATH", "TOOLGATE_STATE", "XDG_CONFIG_HOME", "XDG_STATE_HOME"}

// newGateway returns the gateway of the files of a configuration, run by this very program.
func newGateway(files []string) (gateway, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return gateway{}, failure.Newf(failure.Config, "find the path of this program: %w", err)
	}
	if temporary(program) {
		return gateway{}, failure.Newf(failure.Usage, "%s is temporary, as with `go run`: install toolgate first (docs/install.md), and run the command with that", program)
	}
	g := gateway{program: program, files: files}
	if g.home, err = os.UserHomeDir(); err != nil {
		return gateway{}, failure.Newf(failure.Config, "find your home folder: %w", err)
	}
	for _, name := range passed {
		value := os.Getenv(name)
		switch name {
		case "PATH":
			value = absolute(value)
		default:
			if value == "" {
				continue
			}
			if value, err = filepath.Abs(value); err != nil {
				return gateway{}, failure.Newf(failure.Config, "%s: %w", name, err)
			}
		}
		g.env = append(g.env, [2]string{name, value})
	}
	return g, g.check()
}

// goBuild is a folder of the go command: its cache, or one that it removes.
var goBuild = regexp.MustCompile(`(^|/)go-build\d*/`)

// temporary tells whether `go run` or `go test` has built a program.
func temporary(program string) bool { return goBuild.MatchString(filepath.ToSlash(program)) }

// absolute leaves the absolute folders of a PATH. A service starts in another folder.
func absolute(path string) string {
	folders := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) })
	return strings.Join(folders, string(filepath.ListSeparator))
}

// check refuses what no unit can hold: bytes that are no text, and characters that end a
// line or that XML does not have.
func (g gateway) check() error {
	values := [][2]string{{"the path of this program", g.program}}
	for _, path := range g.files {
		values = append(values, [2]string{"the path of the configuration", path})
	}
	for _, v := range append(values, g.env...) {
		if !utf8.ValidString(v[1]) || strings.ContainsFunc(v[1], func(r rune) bool { return !unicode.IsGraphic(r) }) {
			return failure.Newf(failure.Usage, "%s, %q, has a character that cannot stand in a unit: rename it", v[0], v[1])
		}
	}
	return nil
}

// own tells whether there is a unit. One that toolgate has not written is an error.
func own(path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, failure.Newf(failure.Config, "look for the unit: %w", err)
	}
	foreign := failure.Newf(failure.Config, "%s was not written by toolgate, so it stays as it is: move it away, or keep it instead of the service", path)
	if !info.Mode().IsRegular() || info.Size() > maxUnit {
		return false, foreign
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false, failure.Newf(failure.Config, "read the unit: %w", err)
	}
	if !bytes.Contains(text, []byte(written)) {
		return false, foreign
	}
	return true, nil
}

// writeUnit writes a unit where there is none, or one of toolgate. replaced tells whether
// there was one.
func writeUnit(path, text string) (replaced bool, err error) {
	if replaced, err = own(path); err != nil {
		return false, err
	}
	if err := replace(path, text); err != nil {
		return false, failure.Newf(failure.Config, "write the unit: %w", err)
	}
	return replaced, nil
}

// replace writes a file as a whole or not at all.
func replace(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // not there after the rename
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// unsupported says what to do on a system where toolgate writes no unit.
func unsupported(system string, g gateway) error {
	if system == "windows" {
		return failure.Newf(failure.Usage, "toolgate installs no service on Windows; let the Task Scheduler start it when you log in:\n  %s", scheduled(g))
	}
	return failure.Newf(failure.Usage, "toolgate installs no service on %s; let the system's own start this when you log in:\n  %s %s", system, g.program, strings.Join(g.args(), " "))
}

// scheduled is the command that makes a task of Windows. File names there have no quotes.
func scheduled(g gateway) string {
	args := g.args()
	for i, arg := range args {
		if filepath.IsAbs(arg) || strings.Contains(arg, `\`) {
			args[i] = `\"` + arg + `\"`
		}
	}
	return fmt.Sprintf(`schtasks /Create /TN toolgate /SC ONLOGON /TR "\"%s\" %s"`, g.program, strings.Join(args, " "))
}
