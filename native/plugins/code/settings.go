package code

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/group"
)

// Settings are the section native.code: it runs programs, linters and tests.
type Settings struct {
	// Folders in which linters, tests and git work. Default: none; only execute is available.
	Roots []string `config:"roots" format:"path"`
	// Folders that linters and tests may change; each is a root or inside one. Default: none.
	Write []string `config:"write" format:"path"`
	// Program that runs the code given to execute. Default: python3 from the PATH.
	Python string `config:"python" format:"path"`
	// Runs the code in a container instead. Default: only the sandbox.
	Container ContainerSettings `config:"container"`
	// Commands that run_linter offers, by name. Default: none.
	Linters map[string]CommandSettings `config:"linters"`
	// Commands that run_tests offers, by name. Default: none.
	Tests map[string]CommandSettings `config:"tests"`
	// Timeout of one run. Default: 60s.
	Timeout time.Duration `config:"timeout" min:"100ms" max:"24h"`
	// How much of the output of a run is kept. Default: 1MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	// Executes runs as tasks, which wait for a free worker. Default: false.
	Queue bool `config:"queue"`
	// How many runs may execute at once. Default: 4.
	Workers int `config:"workers" min:"1" max:"1000"`
	// What happens where runs cannot be sandboxed. Default: required; the group then does not start.
	Sandbox group.Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Resource limits of each run. Default: the default of each setting.
	Limits group.Limits `config:"limits"`
}

// ContainerSettings is a container that programs run in.
type ContainerSettings struct {
	// Program that runs containers, such as docker or podman. Default: no container.
	Runtime string `config:"runtime"`
	// Container image. Required with runtime.
	Image string `config:"image"`
	// Additional arguments of the runtime's run command. Default: none.
	Args []string `config:"args"`
}

// CommandSettings is a program that works in a folder.
type CommandSettings struct {
	// Program and its arguments; an argument {path} is replaced by the caller's path. Required.
	Command []string `config:"command" required:"true"`
	// Environment variables in addition to PATH, HOME, LANG and TMPDIR. Default: none.
	Env map[string]string `config:"env"`
}

// Check implements [decode.Checker].
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	group.CheckInside(p, n.Get("write"), tree.Join(path, "write"), s.Write, s.Roots)
	at := tree.Join(path, "container")
	switch {
	case s.Container.Runtime != "" && s.Container.Image == "":
		p.At(n.Get("container"), tree.Join(at, "image"), "add image: ...", "a container needs an image")
	case s.Container.Runtime == "" && (s.Container.Image != "" || len(s.Container.Args) > 0):
		p.At(n.Get("container"), tree.Join(at, "runtime"), "add runtime: docker, or runtime: podman", "nothing runs the container")
	}
	for _, kind := range []struct {
		key string
		of  map[string]CommandSettings
	}{{"linters", s.Linters}, {"tests", s.Tests}} {
		at := n.Get(kind.key).ByKey()
		for _, name := range slices.Sorted(maps.Keys(kind.of)) {
			if command := kind.of[name].Command; len(command) == 0 || command[0] == "" || strings.Contains(command[0], "{path}") {
				p.At(at[name].Value, fmt.Sprintf("%s.%s.%s.command", path, kind.key, name), "write the program and its arguments", "there is no program to run")
			}
		}
	}
}

// Programs returns the programs that are named, as they are written.
func (s *Settings) Programs() []string {
	out := []string{s.Python, s.Container.Runtime}
	for _, commands := range []map[string]CommandSettings{s.Linters, s.Tests} {
		for _, command := range commands {
			if len(command.Command) > 0 {
				out = append(out, command.Command[0])
			}
		}
	}
	return out
}

// Child implements [group.Settings]. The process itself only starts what runs, each run
// confined by itself.
func (s *Settings) Child(g *group.Gateway) group.Child {
	python, library := g.Python()
	mode := s.Sandbox.ForCallers()
	c := Config{
		Roots: s.Roots, Write: s.Write, Own: g.Own, Fixed: g.Started(), Python: python, Library: library, Git: group.Command("git"),
		Linters: commands(s.Linters), Tests: commands(s.Tests), Timeout: s.Timeout, MaxBytes: int(s.MaxBytes),
		Queue: s.Queue, Workers: s.Workers, Sandbox: mode,
		Limits: Limits{
			Memory: int64(s.Limits.Memory), CPU: s.Limits.CPU, FileSize: int64(s.Limits.FileSize), Files: s.Limits.Files, Processes: s.Limits.Processes,
		},
	}
	out := group.Child{Policy: sandbox.Policy{Mode: sandbox.Off}, Env: child.Environment(nil, nil, os.LookupEnv)}
	if s.Container.Runtime != "" {
		c.Container = Container{Runtime: group.Command(s.Container.Runtime), Image: s.Container.Image, Args: s.Container.Args}
	} else { // a container confines execute
		out.Refused = sandbox.Refusal(sandbox.Policy{Mode: mode})
	}
	out.Config, out.Runs = c, s.runs(mode)
	return out
}

// runs is what confines the programs that the tools run. With a container, it is what
// confines all but execute.
func (s *Settings) runs(mode sandbox.Mode) []string {
	layers, err := sandbox.Available(sandbox.Policy{Mode: mode})
	names := layers.Names()
	if s.Container.Runtime != "" {
		names = append(names, "container (execute)")
	}
	if err != nil || names == nil {
		return []string{} // none, which is not the same as that of the process
	}
	return names
}

// commands are commands with the absolute paths of their programs.
func commands(of map[string]CommandSettings) map[string]Command {
	out := make(map[string]Command, len(of))
	for name, c := range of {
		command := slices.Clone(c.Command)
		command[0] = group.Command(command[0])
		out[name] = Command{Command: command, Env: c.Env}
	}
	return out
}
