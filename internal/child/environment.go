package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/toolgate/toolgate/internal/failure"
)

// Look returns the absolute path of command. It skips relative entries of PATH, so that
// nothing in a working directory can stand in for a command.
func Look(command, dir string, env []string) (string, error) {
	if command == "" {
		return "", errors.New("no command to start: set \"command\"")
	}
	if strings.ContainsRune(command, '/') || strings.ContainsRune(command, filepath.Separator) {
		path, err := filepath.Abs(filepath.Join(dirOf(command, dir), command))
		if err != nil {
			return "", fmt.Errorf("find command %q: %w", command, err)
		}
		found, err := findExecutable(path, env)
		if err == nil {
			return found, nil
		}
		if words := strings.Fields(command); len(words) > 1 {
			if _, err := Look(words[0], dir, env); err == nil {
				return "", &lineError{words}
			}
		}
		return "", unusable(command, path, err)
	}
	search := lookVariable(env, "PATH")
	var where string
	var fault error
	for _, entry := range filepath.SplitList(search) {
		if !filepath.IsAbs(entry) {
			continue
		}
		path := filepath.Join(entry, command)
		found, err := findExecutable(path, env)
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, os.ErrNotExist) && fault == nil {
			where, fault = path, err
		}
	}
	if fault != nil {
		return "", unusable(command, where, fault)
	}
	if words := strings.Fields(command); len(words) > 1 {
		if _, err := Look(words[0], dir, env); err == nil {
			return "", &lineError{words}
		}
	}
	return "", failure.Reworded(os.ErrNotExist, "command %q is not in its PATH %q: install it, set PATH in the server's env, or give its full path", command, search)
}

// unusable says why the program at a path cannot be started.
func unusable(command, path string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return failure.Reworded(err, "command %q is not there: there is no %s; install it, or correct the path", command, path)
	case errors.Is(err, syscall.EISDIR):
		return failure.Reworded(err, "command %q cannot be started: %s is a folder; name the program in it", command, path)
	case errors.Is(err, os.ErrPermission):
		return failure.Reworded(err, "command %q cannot be started: %s is not executable; if it is a program, run `chmod +x %s`", command, path, path)
	}
	return fmt.Errorf("command %q cannot be started: %w", command, err)
}

// lineError says that a command is a whole command line.
type lineError struct{ words []string }

// Error implements error.
func (e *lineError) Error() string {
	args := make([]string, 0, len(e.words)-1)
	for _, word := range e.words[1:] {
		args = append(args, strconv.Quote(word))
	}
	return fmt.Sprintf("command %q has spaces, and there is no such program: write \"command\": %q, \"args\": [%s]",
		strings.Join(e.words, " "), e.words[0], strings.Join(args, ", "))
}

// Unwrap tells that there is no such file.
func (*lineError) Unwrap() error { return os.ErrNotExist }

// dirOf returns what command is relative to.
func dirOf(command, dir string) string {
	if filepath.IsAbs(command) {
		return ""
	}
	return dir
}

// lookVariable returns the value that a child sees for name.
func lookVariable(env []string, name string) string {
	name = variableKey(name)
	for _, entry := range slices.Backward(env) {
		if key, value, ok := strings.Cut(entry, "="); ok && variableKey(key) == name {
			return value
		}
	}
	return ""
}

// Environment returns the environment of a child as sorted NAME=value entries: the few
// variables that programs need to run, those named in inherit, and configured, which
// wins. The first two are read through lookup. Nothing else of the gateway's
// environment is passed on.
func Environment(configured map[string]string, inherit []string, lookup func(string) (string, bool)) []string {
	type variable struct{ name, value string }
	all := make(map[string]variable)
	set := func(name, value string) {
		if name != "" && !strings.ContainsAny(name, "=\x00") {
			all[variableKey(name)] = variable{name, value}
		}
	}
	for _, name := range slices.Concat(baseVariables, inherit) {
		if value, ok := lookup(name); ok {
			set(name, value)
		}
	}
	// Sorted, so that the result is stable for names that differ only in case where
	// case does not count.
	names := make([]string, 0, len(configured))
	for name := range configured {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		set(name, configured[name])
	}
	env := make([]string, 0, len(all))
	for _, v := range all {
		env = append(env, v.name+"="+v.value)
	}
	slices.Sort(env)
	return env
}
