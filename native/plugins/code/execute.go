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

// longestCode bounds the length of a program, in bytes.
const longestCode = 256 << 10

// interpreter are the arguments of Python: it ignores variables, the user's folder and
// the script's folder (-I), loads no installed packages and no start-up code (-S),
// writes no compiled files (-B), and reads the program from standard input.
var interpreter = []string{"-I", "-S", "-B", "-X", "utf8", "-"}

func (s *service) execute(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
	language, code := "python", ""
	var seconds, timeoutSeconds int // two names of one argument
	if err := toolapi.Read(call.Arguments, toolapi.Fields{"language": &language, "code": &code, "timeout": &seconds, "timeout_seconds": &timeoutSeconds}); err != nil {
		return toolapi.Result{}, err
	}
	if language != "python" {
		return toolapi.Result{}, toolapi.Problemf("The language is %.40q; python is what execute runs.", language)
	}
	if code == "" || len(code) > longestCode {
		return toolapi.Result{}, toolapi.Problemf("The code has %d bytes; from 1 to %d are allowed.", len(code), longestCode)
	}
	timeout := s.config.Timeout
	for _, seconds := range [...]int{seconds, timeoutSeconds} {
		if seconds < 0 {
			return toolapi.Result{}, toolapi.Problemf("timeout is 1 second or more.")
		} else if seconds > 0 {
			timeout = min(timeout, time.Duration(min(seconds, 86400))*time.Second)
		}
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

// finished returns the result of a run. A run that was killed is a failed call. A
// program's own exit code is a regular answer.
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

// interpreterOf returns the interpreter behind a path. Version managers use a launcher
// script, which needs variables and programs that a run does not have.
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

// script tells whether another program runs this one.
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

// library returns the module folders of an interpreter outside of the system's
// folders.
func library(python string) []string {
	at, err := filepath.EvalSymlinks(python)
	if err != nil {
		return nil
	}
	prefix := filepath.Dir(filepath.Dir(at))
	return exists(filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"))
}

// inContainer runs a program in its own container, with nothing but its image and a
// small folder in memory, and without privileges.
func (s *service) inContainer(ctx context.Context, code string, timeout time.Duration) (outcome, error) {
	name := "toolgate-" + strings.ToLower(rand.Text())
	j := job{
		policy:  sandbox.Policy{Mode: sandbox.Off}, // the runtime is the machine's own, and needs its privileges
		program: sandbox.Program{Path: s.config.Container.Runtime, Args: s.containerArgs(name), Env: runtimeEnv()},
		stdin:   []byte(code), timeout: timeout, keep: s.config.MaxBytes / 2,
	}
	out, err := j.run(ctx)
	if err != nil || out.TimedOut || out.ExitCode < 0 {
		// The runtime's client has ended, but its container may still run.
		remove := j
		remove.program.Args = []string{"rm", "--force", name}
		remove.stdin, remove.timeout = nil, removeWait
		s.leftover.remove(context.WithoutCancel(ctx), name, &remove)
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
	files := l.Files
	if files <= 0 {
		files = 256
	}
	open := strconv.Itoa(files)
	cpu := strconv.FormatInt(int64((l.CPU+time.Second-1)/time.Second), 10)
	args := []string{
		"run", "--rm", "--interactive", "--name=" + name, "--pull=never",
		"--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65534:65534",
		"--memory=" + strconv.FormatInt(memory, 10), "--memory-swap=" + strconv.FormatInt(memory, 10),
		"--pids-limit=" + strconv.Itoa(processes), "--ulimit=cpu=" + cpu + ":" + cpu,
		"--ulimit=nofile=" + open + ":" + open, "--ulimit=core=0:0",
		"--tmpfs=/tmp:rw,nosuid,nodev,noexec,size=67108864", "--workdir=/tmp", "--env=HOME=/tmp", "--log-driver=none", "--entrypoint=python3",
	}
	return append(append(append(args, s.config.Container.Args...), s.config.Container.Image), interpreter...)
}

// runtimeEnv returns the variables that a container runtime needs.
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
