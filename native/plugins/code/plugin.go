package code

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/embedded"
	"github.com/toolgate/toolgate/native/plugins/files"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Name is the plugin's key in the configuration.
const Name = "code"

// Config configures the plugin. All paths are absolute. Zero values mean the defaults.
type Config struct {
	Roots []string `json:"roots,omitempty"`
	// Write are the folders, roots or in roots, that linters and tests may change.
	Write []string `json:"write,omitempty"`
	// Own are the gateway's own files and folders. No folder that a run may read or
	// change may contain them.
	Own []string `json:"own,omitempty"`
	// Fixed are the files that servers are started from. No folder that a run may
	// change may contain them.
	Fixed []string `json:"fixed,omitempty"`

	Python string `json:"python,omitempty"` // empty: execute reports that there is none
	// Library are folders with Python's own modules that lie apart from it.
	Library   []string           `json:"library,omitempty"`
	Git       string             `json:"git,omitempty"` // empty: git_status reports that there is none
	Container Container          `json:"container,omitzero"`
	Linters   map[string]Command `json:"linters,omitempty"`
	Tests     map[string]Command `json:"tests,omitempty"`

	Timeout  time.Duration `json:"timeout,omitempty"`   // of a run, in nanoseconds; 60 s
	MaxBytes int           `json:"max_bytes,omitempty"` // of a run's output that are kept; 1 MiB
	Queue    bool          `json:"queue,omitempty"`
	Workers  int           `json:"workers,omitempty"` // runs at once; 4

	Sandbox sandbox.Mode `json:"sandbox,omitempty"`
	Limits  Limits       `json:"limits,omitzero"`
}

// Container is a container that execute runs in.
type Container struct {
	Runtime string   `json:"runtime,omitempty"` // absolute; empty: no container
	Image   string   `json:"image,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// Command is a program with its arguments, in which "{path}" is replaced.
type Command struct {
	Command []string          `json:"command"` // the program is absolute
	Env     map[string]string `json:"env,omitempty"`
}

// Limits are the limits of one run, as in [sandbox.Policy].
type Limits struct {
	Memory    int64         `json:"memory,omitempty"`
	CPU       time.Duration `json:"cpu,omitempty"` // in nanoseconds; as long as the run may take
	FileSize  int64         `json:"file_size,omitempty"`
	Files     int           `json:"files,omitempty"`
	Processes int           `json:"processes,omitempty"`
}

const (
	defaultTimeout = time.Minute
	defaultMax     = 1 << 20
	defaultWorkers = 4
)

func init() { embedded.Enter(Name, Plugin) }

// Plugin returns the plugin.
func Plugin() *toolapi.Plugin {
	s := &service{}
	p := toolapi.New(Name, "")
	p.Init = func(config []byte) error {
		if err := s.open(config); err != nil {
			return err
		}
		p.Add(s.tools()...)
		return nil
	}
	p.Close = func() {
		s.leftover.close()
		if s.tree != nil {
			s.tree.Close()
		}
	}
	return p
}

// service is the state that the tools share.
type service struct {
	config Config
	tree   *files.Tree
	slots  chan struct{} // one for each run

	leftover leftovers // containers that were not removed
}

func (s *service) open(config []byte) error {
	c := &s.config
	if err := toolapi.ReadConfig(config, c); err != nil {
		return err
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = defaultMax
	}
	if c.Workers <= 0 {
		c.Workers = defaultWorkers
	}
	if c.Limits.CPU <= 0 {
		c.Limits.CPU = c.Timeout
	}
	c.Python = interpreterOf(c.Python)
	s.slots = make(chan struct{}, c.Workers)
	if err := c.check(); err != nil {
		return err
	}
	tree, err := files.Open(files.Rules{Roots: c.Roots, Forbidden: c.Own, HardLinks: true})
	if err != nil {
		return fmt.Errorf("open the folders: %w", err)
	}
	s.tree = tree
	if err := adopt(); err != nil {
		return err
	}
	return nil
}

// check returns the problems with a configuration.
func (c *Config) check() error {
	var wrong []error
	// Programs are granted whole folders; a single file cannot be excluded.
	for _, folder := range c.Roots {
		if own := within(folder, c.Own); own != "" {
			wrong = append(wrong, fmt.Errorf("roots: %s holds %s, which is the gateway's own; programs that run there could read and change it: choose folders without it", folder, own))
		}
	}
	for _, folder := range c.Write {
		if !slices.ContainsFunc(c.Roots, func(root string) bool { return in(folder, root) }) {
			wrong = append(wrong, fmt.Errorf("write: %s is not in one of the roots", folder))
		}
		if own := within(folder, slices.Concat(c.Own, c.Fixed)); own != "" {
			wrong = append(wrong, fmt.Errorf("write: %s holds %s, from which the gateway or a server is started; programs that run there could change it: choose folders without it", folder, own))
		}
	}
	for kind, commands := range map[string]map[string]Command{"linters": c.Linters, "tests": c.Tests} {
		for name, command := range commands {
			if err := command.check(); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %s: %w", kind, name, err))
			}
		}
	}
	if c.Container.Runtime != "" {
		if !filepath.IsAbs(c.Container.Runtime) {
			wrong = append(wrong, fmt.Errorf("container: the runtime %q is not an absolute path", c.Container.Runtime))
		}
		if c.Container.Image == "" || strings.HasPrefix(c.Container.Image, "-") || strings.ContainsAny(c.Container.Image, " \t\r\n\x00") {
			wrong = append(wrong, fmt.Errorf("container: the image %q is not the name of an image", c.Container.Image))
		}
	}
	// Where there is a container, the container confines execute.
	if err := sandbox.Refusal(c.policy()); err != nil && (c.Container.Runtime == "" || !errors.Is(err, sandbox.ErrMissing)) {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

func (c *Command) check() error {
	if len(c.Command) == 0 || !filepath.IsAbs(c.Command[0]) {
		return errors.New("the command is empty, or its program is not an absolute path")
	}
	for _, arg := range c.Command[1:] {
		if strings.Contains(arg, "{path}") && arg != "{path}" {
			return fmt.Errorf("%q: {path} stands alone in an argument, so that a path is never a part of another one", arg)
		}
	}
	return nil
}

// within returns the first path that is inside a folder or contains it, by name or by
// real path.
func within(folder string, paths []string) string {
	for _, path := range paths {
		for _, f := range []string{folder, real(folder)} {
			for _, p := range []string{path, real(path)} {
				if in(p, f) || in(f, p) {
					return path
				}
			}
		}
	}
	return ""
}

// in tells whether a path is a folder or inside it.
func in(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// real resolves a path as far as it exists.
func real(path string) string {
	for head, tail := path, ""; ; head, tail = filepath.Dir(head), filepath.Join(filepath.Base(head), tail) {
		if to, err := filepath.EvalSymlinks(head); err == nil {
			return filepath.Join(to, tail)
		}
		if head == filepath.Dir(head) {
			return path
		}
	}
}

// policy returns the policy of every run, before anything is granted.
func (c *Config) policy() sandbox.Policy {
	return sandbox.Policy{
		Mode: c.Sandbox, CPU: c.Limits.CPU, Memory: c.Limits.Memory, FileSize: c.Limits.FileSize,
		Files: c.Limits.Files, Processes: c.Limits.Processes,
	}
}

// slot waits until another run may start. Callers must call back when they are done.
func (s *service) slot(ctx context.Context) (back func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// exists returns the paths that exist.
func exists(paths ...string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}
