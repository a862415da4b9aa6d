package code

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/toolapi"
)

// longestCode is how long a program may be.
const longestCode = 256 << 10

// interpreter are the arguments of Python: no variables, no folder of the user or of
// the script among those that modules are loaded from (-I), no packages of the
// machine and nothing that these run at the start (-S), no compiled files (-B), and
// the program from the standard input.
var interpreter = []string{"-I", "-S", "-B", "-X", "utf8", "-"}

func (s *service) execute(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
	var code string
	var seconds int
	if err := toolapi.Read(call.Arguments, toolapi.Fields{"code": &code, "timeout_seconds": &seconds}); err != nil {
		return toolapi.Result{}, err
	}
	if code == "" || len(code) > longestCode {
		return toolapi.Result{}, toolapi.Problemf("The code has %d bytes; from 1 to %d are allowed.", len(code), longestCode)
	}
	timeout := s.config.Timeout
	if seconds < 0 {
		return toolapi.Result{}, toolapi.Problemf("timeout_seconds is 1 or more.")
	} else if seconds > 0 {
		timeout = min(timeout, time.Duration(min(seconds, 86400))*time.Second)
	}
	back, err := s.slot(ctx)
	if err != nil {
		return toolapi.Result{}, err
	}
	defer back()
	var out outcome
	switch {
	case s.config.Container.Runtime != "":
		out, err = s.inContainer(ctx, code, timeout)
	case s.config.Python == "" || len(exists(s.config.Python)) == 0:
		return toolapi.Result{}, toolapi.Problemf("There is no Python where execute looks for it; an operator sets native.code.python to the path of an interpreter.")
	case script(s.config.Python):
		return toolapi.Result{}, toolapi.Problemf("The Python that execute knows of, %s, is a script that looks for the interpreter; an operator sets native.code.python to the path of the interpreter itself, which sys.executable tells.", s.config.Python)
	default:
		out, err = s.inSandbox(ctx, code, timeout)
	}
	if err != nil {
		return toolapi.Result{}, notRun("The program", err)
	}
	return finished(out)
}

// finished is the result of a run. One that was ended has failed as a call; what a
// program says by its exit code is an answer.
func finished(out outcome) (toolapi.Result, error) {
	result, err := toolapi.Answer(out)
	result.IsError = out.TimedOut || out.EndedBy != ""
	return result, err
}

func (s *service) inSandbox(ctx context.Context, code string, timeout time.Duration) (outcome, error) {
	policy := s.config.policy()
	policy.Temp = true
	policy.Read = append(library(s.config.Python), exists(s.config.Library...)...)
	j := job{
		policy:  policy,
		program: sandbox.Program{Path: s.config.Python, Args: interpreter, Env: []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}},
		stdin:   []byte(code), timeout: timeout, keep: s.config.MaxBytes / 2,
	}
	return j.run(ctx)
}

// interpreterOf is the interpreter that a path stands for. One of a version manager
// is a script that looks for it, with variables and programs that a run has not.
func interpreterOf(path string) string {
	if path == "" || !script(path) {
		return path
	}
	for _, other := range []string{"/usr/local/bin/python3", "/usr/bin/python3"} {
		if len(exists(other)) > 0 && !script(other) {
			return other
		}
	}
	return path
}

// script tells whether a program is run by another one.
func script(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, 2)
	_, err = io.ReadFull(f, begin)
	return err == nil && string(begin) == "#!"
}

// library is where an interpreter outside of the system's folders has its modules.
func library(python string) []string {
	at, err := filepath.EvalSymlinks(python)
	if err != nil {
		return nil
	}
	prefix := filepath.Dir(filepath.Dir(at))
	return exists(filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"))
}

// removeWait bounds how long a container may take to be removed.
const removeWait = 20 * time.Second

// inContainer runs a program in a container of its own, which has nothing but its
// image and a small folder in memory, and no privilege.
func (s *service) inContainer(ctx context.Context, code string, timeout time.Duration) (outcome, error) {
	name := "toolgate-" + strings.ToLower(rand.Text())
	j := job{
		policy:  sandbox.Policy{Mode: sandbox.Off}, // the runtime is the machine's own, and needs its privileges
		program: sandbox.Program{Path: s.config.Container.Runtime, Args: s.containerArgs(name), Env: runtimeEnv()},
		stdin:   []byte(code), timeout: timeout, keep: s.config.MaxBytes / 2,
	}
	out, err := j.run(ctx)
	if err != nil || out.TimedOut || out.ExitCode < 0 {
		// The runtime's client has ended; what it started may not have.
		remove := j
		remove.program.Args = []string{"rm", "--force", name}
		remove.stdin, remove.timeout = nil, removeWait
		_, failed := remove.run(context.WithoutCancel(ctx))
		if err == nil && failed != nil {
			err = failed
		}
	}
	return out, err
}

func (s *service) containerArgs(name string) []string {
	l := s.config.Limits
	memory := l.Memory
	if memory <= 0 {
		memory = 1 << 30
	}
	processes := l.Processes
	if processes <= 0 {
		processes = 64
	}
	cpu := strconv.FormatInt(int64((l.CPU+time.Second-1)/time.Second), 10)
	args := []string{
		"run", "--rm", "--interactive", "--name=" + name, "--pull=never",
		"--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65534:65534",
		"--memory=" + strconv.FormatInt(memory, 10), "--memory-swap=" + strconv.FormatInt(memory, 10),
		"--pids-limit=" + strconv.Itoa(processes), "--ulimit=cpu=" + cpu + ":" + cpu, "--ulimit=core=0:0",
		"--tmpfs=/tmp:rw,nosuid,nodev,noexec,size=67108864", "--workdir=/tmp", "--env=HOME=/tmp", "--log-driver=none", "--entrypoint=python3",
	}
	return append(append(append(args, s.config.Container.Args...), s.config.Container.Image), interpreter...)
}

// runtimeEnv is what a runtime needs to find its own.
func runtimeEnv() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	if u, err := user.Current(); err == nil {
		env = append(env, "HOME="+u.HomeDir)
	}
	if dir := "/run/user/" + strconv.Itoa(os.Getuid()); len(exists(dir)) > 0 {
		env = append(env, "XDG_RUNTIME_DIR="+dir)
	}
	return env
}
