package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// baseVariables are what programs need to run at all.
var baseVariables = []string{
	"PATH", "PATHEXT", "COMSPEC", "SystemRoot", "SystemDrive", "windir", "OS",
	"TEMP", "TMP", "HOMEDRIVE", "HOMEPATH", "USERPROFILE", "USERNAME",
	"APPDATA", "LOCALAPPDATA", "ProgramData", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432",
	"NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "HOME", "LANG",
}

// variableKey returns the form in which names of variables are compared.
func variableKey(name string) string { return strings.ToUpper(name) }

// system is the job of the leader and all its descendants.
type system struct{ job windows.Handle }

// begin starts the command in a new job, which ends with its last handle. Only we have
// one, so it ends at the latest with the gateway. The process is created suspended and
// runs its first instruction within the job, whatever guard says; mu is held.
func (g *Group) begin(cmd *exec.Cmd, guard Guard) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP
	cmd.SysProcAttr.HideWindow = true
	job, err := newJob()
	if err != nil {
		return err
	}
	if guard == GuardedFirst {
		err = startExactly(cmd)
	} else {
		err = cmd.Start()
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return err
	}
	if err := confine(cmd.Process, job); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = windows.CloseHandle(job)
		return err
	}
	g.job = job
	return nil
}

// startExactly starts the command with exactly its environment, and batch files by a
// safe command line.
func startExactly(cmd *exec.Cmd) error {
	files, err := standardFiles(cmd)
	if err != nil {
		return err
	}
	path := cmd.Path
	if isBatch(path) {
		directory, err := windows.GetSystemDirectory()
		if err != nil {
			return fmt.Errorf("find the system directory: %w", err)
		}
		if cmd.SysProcAttr.CmdLine, err = batchCommandLine(path, cmd.Args[1:]); err != nil {
			return err
		}
		path = filepath.Join(directory, "cmd.exe")
	}
	cmd.Process, err = os.StartProcess(path, cmd.Args, &os.ProcAttr{
		Dir: cmd.Dir, Env: cmd.Env, Files: files, Sys: cmd.SysProcAttr,
	})
	return err
}

// newJob creates a job whose processes are killed when its last handle closes.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create a job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, fmt.Errorf("limit a job object: %w", err)
	}
	return job, nil
}

// confine puts the suspended leader into the job and resumes it.
func confine(leader *os.Process, job windows.Handle) error {
	var assignErr error
	err := leader.WithHandle(func(handle uintptr) {
		assignErr = windows.AssignProcessToJobObject(job, windows.Handle(handle))
	})
	if err := errors.Join(err, assignErr); err != nil {
		return fmt.Errorf("assign process %d to its job: %w", leader.Pid, err)
	}
	if err := resume(uint32(leader.Pid)); err != nil {
		return fmt.Errorf("resume process %d: %w", leader.Pid, err)
	}
	return nil
}

// resume resumes the only thread of a suspended process.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer func() { _ = windows.CloseHandle(snapshot) }()

	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open thread %d: %w", entry.ThreadID, err)
		}
		_, err = windows.ResumeThread(thread)
		_ = windows.CloseHandle(thread)
		return err
	}
	return fmt.Errorf("find its thread: %w", err)
}

// awaitExit blocks until the leader has exited.
func (g *Group) awaitExit() error {
	var waitErr error
	err := g.leader.WithHandle(func(handle uintptr) {
		_, waitErr = windows.WaitForSingleObject(windows.Handle(handle), windows.INFINITE)
	})
	if err := errors.Join(err, waitErr); err != nil {
		return fmt.Errorf("wait for process %d: %w", g.leader.Pid, err)
	}
	return nil
}

// terminate asks the group to end, with the nearest equivalent of a signal. It only
// reaches processes on our console.
func (g *Group) terminate() {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(g.leader.Pid))
}

// kill kills the job. It fails only when the job is empty.
func (g *Group) kill() { _ = windows.TerminateJobObject(g.job, 1) }

// close closes the empty job.
func (g *Group) close() { _ = windows.CloseHandle(g.job) }

// exitSignal returns "": there are no signals here.
func exitSignal(*os.ProcessState) string { return "" }

// findExecutable returns path with the first extension of PATHEXT that makes it a file,
// or path itself if it has one of them.
func findExecutable(path string, env []string) (string, error) {
	extensions := lookVariable(env, "PATHEXT")
	if extensions == "" {
		extensions = ".COM;.EXE;.BAT;.CMD"
	}
	var all []string
	for extension := range strings.SplitSeq(extensions, ";") {
		if extension == "" {
			continue
		}
		if strings.EqualFold(filepath.Ext(path), extension) {
			all = []string{path}
			break
		}
		all = append(all, path+extension)
	}
	for _, candidate := range all {
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() {
			return candidate, nil
		}
	}
	return "", &os.PathError{Op: "find", Path: path, Err: os.ErrNotExist}
}

// isBatch reports whether cmd.exe runs path, as for npx.
func isBatch(path string) bool {
	extension := filepath.Ext(path)
	return strings.EqualFold(extension, ".bat") || strings.EqualFold(extension, ".cmd")
}

// batchCommandLine returns the command line for cmd.exe that runs a batch file. cmd.exe
// has rules of its own, under which an argument could become a second command. So
// everything is quoted, and what quotes cannot hold is refused.
func batchCommandLine(path string, args []string) (string, error) {
	var b strings.Builder
	b.WriteString(`cmd.exe /e:ON /v:OFF /d /s /c "`)
	for i, arg := range append([]string{path}, args...) {
		if strings.ContainsAny(arg, "\"%\r\n\x00") {
			return "", fmt.Errorf(`%s is a batch file and cannot be given %q: quotes, percent signs and line breaks are not safe there; run its program directly (for npx: node and the script)`, path, arg)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte('"')
		b.WriteString(arg)
		// A backslash before the closing quote would escape it for the program.
		for n := len(arg); n > 0 && arg[n-1] == '\\'; n-- {
			b.WriteByte('\\')
		}
		b.WriteByte('"')
	}
	b.WriteByte('"')
	return b.String(), nil
}
