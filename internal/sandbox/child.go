package sandbox

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/child"
)

// Child returns what runs a child process under a policy, for [child.Spec]. The child
// starts in its folder, or in its private folder where it names none.
func Child(p Policy) func(path string, spec *child.Spec) (child.Prepared, error) {
	return func(path string, spec *child.Spec) (child.Prepared, error) {
		if !filepath.IsAbs(path) {
			absolute, err := filepath.Abs(path)
			if err != nil {
				return nil, fmt.Errorf("sandbox: %s: %w", path, err)
			}
			path = absolute
		}
		args := spec.Args
		if by := interpreter(path); by != nil {
			// Under its own path, and not under that of a descriptor: the scripts of version
			// managers go by their names.
			p.Run = append(slices.Clone(p.Run), by[0])
			p.Read = append(slices.Clone(p.Read), path)
			path, args = by[0], slices.Concat(by[1:], []string{path}, args)
		}
		// The group of the child ends it, so no context does.
		pr, err := Command(context.Background(), p, Program{Path: path, Args: args, Env: spec.Env, Dir: spec.Dir})
		if err != nil {
			return nil, err
		}
		return (*prepared)(pr), nil
	}
}

// longestLine is how much of the first line of a script is read, as Linux does.
const longestLine = 256

// interpreter returns the program that runs a script, with the argument that the first line
// of the script gives it; nil for what is no script, or cannot be read.
func interpreter(path string) []string {
	file, err := openPlain(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	begin := make([]byte, longestLine)
	n, _ := io.ReadFull(file, begin) // most are longer, some are not
	line, found := strings.CutPrefix(string(begin[:n]), "#!")
	line, _, ended := strings.Cut(line, "\n")
	if !found || !ended {
		return nil
	}
	by, argument, _ := strings.Cut(strings.TrimSpace(line), " ")
	if checkPath(by) != nil {
		return nil
	}
	if argument = strings.TrimSpace(argument); argument != "" {
		return []string{by, argument}
	}
	return []string{by}
}

// prepared is a process as package child has it.
type prepared Process

// Command implements [child.Prepared].
func (p *prepared) Command() *exec.Cmd { return p.Cmd }

// Start implements [child.Prepared].
func (p *prepared) Start(group *child.Group) error { return (*Process)(p).StartIn(group) }

// Close implements [child.Prepared].
func (p *prepared) Close() error { return (*Process)(p).Close() }
