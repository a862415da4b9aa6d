package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

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
		// The group of the child ends it, so no context does.
		pr, err := Command(context.Background(), p, Program{Path: path, Args: spec.Args, Env: spec.Env, Dir: spec.Dir})
		if err != nil {
			return nil, err
		}
		return (*prepared)(pr), nil
	}
}

// prepared is a process as package child has it.
type prepared Process

// Command implements [child.Prepared].
func (p *prepared) Command() *exec.Cmd { return p.Cmd }

// Start implements [child.Prepared].
func (p *prepared) Start(group *child.Group) error { return (*Process)(p).StartIn(group) }

// Close implements [child.Prepared].
func (p *prepared) Close() error { return (*Process)(p).Close() }
