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

// Config is what the plugin is opened with. All paths are absolute. Zero values are
// replaced by the defaults.
type Config struct {
	Roots []string `json:"roots,omitempty"`
	// Write are the folders, roots or in roots, that linters and tests may change.
	Write []string `json:"write,omitempty"`
	// Own are the files and folders of the gateway: what a run may read or change
	// holds none of them.
	Own []string `json:"own,omitempty"`
	// Fixed are what servers are started from: what a run may change holds none.
	Fixed []string `json:"fixed,omitempty"`

	Python string `json:"python,omitempty"` // none: execute says so
	// Library are further folders of Python's own modules, beside those with it.
	Library   []string           `json:"library,omitempty"`
	Git       string             `json:"git,omitempty"` // none: git_status says so
	Container Container          `json:"container,omitzero"`
	Linters   map[string]Command `json:"linters,omitempty"`
	Tests     map[string]Command `json:"tests,omitempty"`

	Timeout  time.Duration `json:"timeout,omitempty"`   // of a run, in nanoseconds; 60 s
	MaxBytes int           `json:"max_bytes,omitempty"` // of what a run prints that is kept; 1 MiB
	Queue    bool          `json:"queue,omitempty"`
	Workers  int           `json:"workers,omitempty"` // runs at once; 4

	Sandbox sandbox.Mode `json:"sandbox,omitempty"`
	Limits  Limits       `json:"limits,omitzero"`
}

// Container is a container that execute runs in.
type Container struct {
	Runtime string   `json:"runtime,omitempty"` // absolute; none is no container
	Image   string   `json:"image,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// Command is a program with its arguments, of which "{path}" is replaced.
type Command struct {
	Command []string          `json:"command"` // the program is absolute
	Env     map[string]string `json:"env,omitempty"`
}

// Limits are those of one run, as [sandbox.Policy] has them.
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
		if s.tree != nil {
			s.tree.Close()
		}
	}
	return p
}

// service is the tools with what they share.
type service struct {
	config Config
	tree   *files.Tree
	slots  chan struct{} // one for each run
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

// check finds out what is wrong with a configuration.
func (c *Config) check() error {
	var wrong []error
	// What a program may read or change is said by folders, out of which no single
	// file can be taken.
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
			wrong = append(wrong, fmt.Errorf("container: the image %q is no name of an image", c.Container.Image))
		}
	}
	// What confines execute is the container, where there is one.
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

// within returns the first of some paths that is in a folder, or that the folder is
// in; by their names and by where they really are.
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

// in tells whether a path is a folder or in it.
func in(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// real is where a path leads, as far as it exists.
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

// policy is what every run is held to, before anything is granted.
func (c *Config) policy() sandbox.Policy {
	return sandbox.Policy{
		Mode: c.Sandbox, CPU: c.Limits.CPU, Memory: c.Limits.Memory, FileSize: c.Limits.FileSize,
		Files: c.Limits.Files, Processes: c.Limits.Processes,
	}
}

// slot waits until another run may begin. Whoever gets one gives it back.
func (s *service) slot(ctx context.Context) (back func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// exists keeps the paths that there are.
func exists(paths ...string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}
