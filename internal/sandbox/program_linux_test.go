//go:build amd64 || arm64

package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/sandbox/shim"
)

func TestChecksum(t *testing.T) {
	self := testBinary(t)
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	program := Program{Path: self, Args: []string{childMark, "print", "checked"}, SHA256: sum[:]}
	if got := runProgram(t, Policy{Mode: Auto}, program); got != "done: checked\n" {
		t.Errorf("got %s", got)
	}
	for _, bad := range [][]byte{{}, sum[:31], make([]byte, 32)} {
		program.SHA256 = bad
		if _, err := Command(t.Context(), Policy{Mode: Auto}, program); !errors.Is(err, ErrChecksum) {
			t.Errorf("checksum %x: got %v", bad, err)
		}
	}
}

// copyTo copies this program, and returns its path.
func copyTo(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(testBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Between the check of a program and its start, another takes its name.
func TestProgramThatIsSwapped(t *testing.T) {
	folder := t.TempDir()
	eachMachine(t, func(t *testing.T, _ machine) {
		path := copyTo(t, folder+"/program")
		pr, err := Command(t.Context(), Policy{Mode: Auto}, Program{Path: path, Args: []string{childMark, "print", "the right one"}})
		if err != nil {
			t.Fatal(err)
		}
		defer pr.Close()
		copyTo(t, folder+"/other")
		if err := os.Rename(folder+"/other", path); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		pr.Cmd.Stdout = &out
		if err := pr.Start(); err == nil || out.Len() > 0 {
			t.Errorf("got %v: %s", err, out.String())
		}
	})
}

func TestOpenFileIsRun(t *testing.T) {
	eachMachine(t, func(t *testing.T, _ machine) {
		fd, err := unix.MemfdCreate("copy", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fd), "copy")
		defer file.Close()
		self, err := os.Open(testBinary(t))
		if err != nil {
			t.Fatal(err)
		}
		defer self.Close()
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(file, sum), self); err != nil {
			t.Fatal(err)
		}
		program := Program{Path: "/no/such/program", File: file, Args: []string{childMark, "print", "from a copy"}, SHA256: sum.Sum(nil)}
		if got := runProgram(t, Policy{Mode: Auto}, program); got != "done: from a copy\n" {
			t.Errorf("got %s", got)
		}
	})
}

func TestScript(t *testing.T) {
	folder := t.TempDir()
	script := folder + "/script"
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"a script says $1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := Policy{Mode: Auto, Run: []string{"/bin/sh"}}
	eachMachine(t, func(t *testing.T, _ machine) {
		if got := runProgram(t, p, Program{Path: script, Args: []string{"hello"}}); got != "a script says hello\n" {
			t.Errorf("got %s", got)
		}
	})
	// Its interpreter is not granted with it.
	pr, err := Command(t.Context(), Policy{Mode: Auto}, Program{Path: script})
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Close()
	if err := pr.Start(); err == nil || !strings.Contains(err.Error(), "was not entered: running "+script) {
		t.Errorf("got %v", err)
	}
	if pr.Cmd.ProcessState == nil {
		t.Error("the shim is still there")
	}
}

func TestProgramsThatAreRefused(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	fifo := folder + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o700); err != nil {
		t.Fatal(err)
	}
	self := testBinary(t)
	for _, tt := range []struct {
		name string
		give Program
		want string
	}{
		{"relative", Program{Path: "true"}, "must be absolute"},
		{"not there", Program{Path: folder + "/none"}, "no such file"},
		{"folder", Program{Path: folder}, "not a regular file"},
		{"FIFO", Program{Path: fifo}, "not a regular file"},
		{"relative folder", Program{Path: self, Dir: "here"}, "must be absolute"},
		{"folder that is not granted", Program{Path: self, Dir: "/root"}, "does not grant"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Command(t.Context(), Policy{Mode: Auto, Temp: true}, tt.give); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "toolgate-sandbox-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("folders are left: %v, %v", left, err)
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	folder := t.TempDir()
	write(t, folder+"/outside/secret", "the secret")
	writable := folder + "/writable"
	write(t, writable+"/file", "mine")
	for name, target := range map[string]string{
		writable + "/evil": folder + "/outside", writable + "/fine": writable + "/file",
		folder + "/loop": folder + "/loop", folder + "/away": "/nowhere",
	} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	self := Program{Path: testBinary(t), Args: []string{childMark, "print", "ran"}}
	for _, tt := range []struct {
		name string
		give Policy
		want string
	}{
		{"not there", Policy{Write: []string{folder + "/new"}}, "does not exist"},
		{"link to nothing", Policy{Read: []string{folder + "/away"}}, "does not exist"},
		{"loop", Policy{Read: []string{folder + "/loop"}}, "too many levels"},
		{"the root for writing", Policy{Write: []string{"/"}}, "cannot be granted for writing"},
		{"a link that the program could have made", Policy{Write: []string{writable}, Read: []string{writable + "/evil"}}, "leads out of"},
		{"the same for writing", Policy{Write: []string{writable, writable + "/evil"}}, "leads out of"},
		{"through it", Policy{Write: []string{writable}, Read: []string{writable + "/evil/secret"}}, "leads out of"},
		{"one process", Policy{Read: []string{"/proc/self"}}, "about one process"},
		{"its memory", Policy{Read: []string{"/proc/" + strconv.Itoa(os.Getpid()) + "/environ"}}, "about one process"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.give.Mode = Auto
			if _, err := Command(t.Context(), tt.give, self); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if got := runProgram(t, Policy{Mode: Auto, Write: []string{writable}, Read: []string{writable + "/fine"}}, self); got != "done: ran\n" {
		t.Errorf("a link that stays inside: %s", got)
	}
}

// A path that becomes a link between the decision and the start is not followed.
func TestPathThatBecomesALink(t *testing.T) {
	folder := t.TempDir()
	eachMachine(t, func(t *testing.T, _ machine) {
		if err := os.MkdirAll(folder+"/granted", 0o700); err != nil {
			t.Fatal(err)
		}
		pr, err := Command(t.Context(), Policy{Mode: Auto, Read: []string{folder + "/granted"}},
			Program{Path: testBinary(t), Args: []string{childMark, "list", "/root"}})
		if err != nil {
			t.Fatal(err)
		}
		defer pr.Close()
		if err := os.Remove(folder + "/granted"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/root", folder+"/granted"); err != nil {
			t.Fatal(err)
		}
		if err := pr.Start(); err == nil || !strings.Contains(err.Error(), "was not entered: opening "+folder+"/granted") {
			t.Errorf("got %v", err)
		}
		if err := os.Remove(folder + "/granted"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheRootWithoutTheMachine(t *testing.T) {
	p := Policy{Mode: Auto, Read: []string{"/"}, Processes: 128}
	secret := write(t, t.TempDir()+"/file", "somewhere")
	t.Setenv("TOOLGATE_SECRET", "canary")
	me := strconv.Itoa(os.Getpid())
	eachMachine(t, func(t *testing.T, _ machine) {
		for _, tt := range []struct {
			want string
			deed []string
		}{
			{"done: somewhere", []string{"read", secret}},
			{"done: ", []string{"list", "/usr"}},
			{"error: ", []string{"write", secret}},
			{"error: ", []string{"read", "/proc/" + me + "/environ"}},
			{"error: ", []string{"list", "/proc/" + me + "/root"}},
			{"error: ", []string{"list", "/sys"}},
			{"error: ", []string{"list", "/dev"}},
			{"error: ", []string{"list", "/run"}},
		} {
			if got := runChild(t, p, tt.deed[0], tt.deed[1:]...); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%v: got %q, want %q", tt.deed, got, tt.want)
			}
		}
	})
}

// Whoever is granted proc by its name sees the processes of the machine, and of none
// of them what only its owner may see.
func TestProcOfTheMachine(t *testing.T) {
	p := Policy{Mode: Auto, Read: []string{"/proc"}}
	me := strconv.Itoa(os.Getpid())
	eachMachine(t, func(t *testing.T, m machine) {
		if m.landlock < 6 && !m.namespaces {
			return // the same as with a newer one
		}
		for _, tt := range []struct {
			want string
			deed []string
		}{
			{"done: cpu", []string{"read", "/proc/stat"}},
			{"done: Name:", []string{"read", "/proc/" + me + "/status"}},
			{"error: ", []string{"read", "/proc/" + me + "/environ"}},
			{"error: ", []string{"read", "/proc/" + me + "/fd/0"}},
			{"error: ", []string{"list", "/proc/" + me + "/root"}},
			{"error: ", []string{"read", "/proc/" + me + "/maps"}},
			{"error: ", []string{"write", "/proc/sys/kernel/core_pattern"}},
			{"error: ", []string{"write", "/proc/sysrq-trigger"}},
		} {
			if got := runChild(t, p, tt.deed[0], tt.deed[1:]...); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%v: got %q, want %q", tt.deed, got, tt.want)
			}
		}
	})
}

// Nothing is inherited but what was given, even what was opened to be inherited.
func TestDescriptors(t *testing.T) {
	folder := t.TempDir()
	leak, err := syscall.Open(write(t, folder+"/secret", "the secret"), syscall.O_RDONLY, 0) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	given, err := os.Open(write(t, folder+"/given", "given"))
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	eachMachine(t, func(t *testing.T, _ machine) {
		p := Policy{Mode: Auto}
		for _, tt := range []struct {
			files []*os.File
			want  []string
		}{
			{nil, []string{"0", "1", "2"}},
			{[]*os.File{given}, []string{"0", "1", "2", "3"}},
		} {
			got := runProgram(t, p, Program{Path: testBinary(t), Args: []string{childMark, "descriptors"}, Files: tt.files})
			var fds []string
			for f := range strings.FieldsSeq(strings.TrimPrefix(got, "done: ")) {
				number, name, _ := strings.Cut(f, "=")
				// The runtime of the child opens its own.
				if !strings.Contains(name, "eventpoll") && !strings.Contains(name, "eventfd") {
					fds = append(fds, number)
				}
			}
			if len(fds) > len(tt.want) && !strings.Contains(got, folder) {
				fds = fds[:len(tt.want)] // of a child without a proc, which cannot name its own
			}
			if diff := cmp.Diff(tt.want, fds); diff != "" {
				t.Errorf("open descriptors (-want +got):\n%s\n%s", diff, got)
			}
		}
	})
}

func TestListen(t *testing.T) {
	folder := t.TempDir()
	p := Policy{Mode: Auto, Write: []string{folder}, Listen: true}
	l, err := net.Listen("unix", folder+"/ours")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	eachMachine(t, func(t *testing.T, _ machine) {
		for _, tt := range []struct {
			want string
			deed []string
		}{
			{"done: ", []string{"listen", "unix", folder + "/mine"}},
			{"error: ", []string{"listen", "unix", "/tmp/elsewhere"}},
			{"error: ", []string{"unix", folder + "/ours"}},
			{"error: ", []string{"socket", "1", "2", "0"}},
			{"error: ", []string{"listen", "tcp", "127.0.0.1:0"}},
		} {
			if got := runChild(t, p, tt.deed[0], tt.deed[1:]...); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%v: got %q, want %q", tt.deed, got, tt.want)
			}
		}
	})
}

func TestFullNetwork(t *testing.T) {
	folder := t.TempDir()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	l, err := net.Listen("unix", folder+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	abstract := "@toolgate-full-" + strconv.Itoa(os.Getpid())
	a, err := net.Listen("unix", abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	records, err := net.Listen("unixpacket", abstract+"-records")
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	p := Policy{Mode: Auto, Network: FullNetwork}
	eachMachine(t, func(t *testing.T, m machine) {
		for _, tt := range []struct {
			want string
			deed []string
		}{
			{"done: ", []string{"tcp", tcp.Addr().String()}},
			{"done: ", []string{"udp", tcp.Addr().String()}},
			{"done: ", []string{"listen", "tcp", "127.0.0.1:0"}},
			{"error: ", []string{"unix", folder + "/socket"}},
			{"error: ", []string{"unix", abstract}},
			{"error: ", []string{"socket", "2", "3", "1"}},
			{"error: ", []string{"socket", "17", "3", "0"}},
			{"error: ", []string{"socketpair", "2"}},
			{"error: transport endpoint is already connected", []string{"repair", "1", abstract}},
			{"error: transport endpoint is already connected", []string{"repair", "5", abstract + "-records"}},
		} {
			if got := runChild(t, p, tt.deed[0], tt.deed[1:]...); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%v: got %q, want %q", tt.deed, got, tt.want)
			}
		}
		// Who may do both can find others' sockets, where it sees their files.
		both := p
		both.Listen = true
		if m.namespaces {
			if got := runChild(t, both, "unix", folder+"/socket"); !strings.HasPrefix(got, "error: ") {
				t.Errorf("it reached a socket: %s", got)
			}
			return
		}
		both.Mode = Required
		if _, err := Command(t.Context(), both, Program{Path: testBinary(t)}); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "namespaces: ") {
			t.Errorf("got %v", err)
		}
	})
}

// Every layer that a policy needs and the machine lacks is a reason not to run.
func TestRequired(t *testing.T) {
	full := machine{landlock: 7, seccomp: true, namespaces: true, proc: true, maxPID: true}
	without := func(change func(*machine)) machine {
		m := full
		change(&m)
		return m
	}
	space := func(m *machine) {
		m.namespaces, m.proc, m.maxPID, m.noSpace = false, false, false, errClone
	}
	for _, tt := range []struct {
		name    string
		m       machine
		p       Policy
		missing []string
	}{
		{"everything", full, Policy{}, nil},
		{"no Landlock", without(func(m *machine) { m.landlock = 0 }), Policy{}, []string{"landlock"}},
		{"no seccomp", without(func(m *machine) { m.seccomp = false }), Policy{}, []string{"seccomp"}},
		{"nothing", machine{noSpace: errClone}, Policy{}, []string{"landlock", "seccomp"}},
		{"no namespaces, network and sockets", without(space), Policy{Network: FullNetwork, Listen: true}, []string{"namespaces"}},
		{"no proc", without(func(m *machine) { m.proc = false }), Policy{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pretend(t, tt.m)
			_, err := Command(t.Context(), tt.p, Program{Path: "/does/not/exist"})
			if len(tt.missing) == 0 {
				if err == nil || errors.Is(err, ErrMissing) {
					t.Errorf("got %v", err)
				}
				return
			}
			if !errors.Is(err, ErrMissing) {
				t.Fatalf("got %v", err)
			}
			for _, layer := range tt.missing {
				if !strings.Contains(err.Error(), layer+": ") {
					t.Errorf("%v does not name %s", err, layer)
				}
			}
			tt.p.Mode = Auto // what there is does run
			l, err := Available(tt.p)
			if err != nil || l.refusal() == nil {
				t.Errorf("got %v, %v", l, err)
			}
		})
	}
	// The real machine either has them all, or refuses.
	l, err := Available(Policy{})
	if err != nil {
		t.Fatal(err)
	}
	pr, err := Command(t.Context(), Policy{}, Program{Path: testBinary(t), Args: []string{childMark, "print", "confined"}})
	if refused := errors.Is(err, ErrMissing); refused != (l.refusal() != nil) {
		t.Errorf("layers %v, and got %v", l, err)
	}
	if err == nil {
		defer pr.Close()
		if got := runChild(t, Policy{}, "print", "confined"); got != "done: confined\n" {
			t.Errorf("got %s", got)
		}
	}
}

func TestOff(t *testing.T) {
	t.Setenv("TOOLGATE_SECRET", "canary")
	p := Policy{Mode: Off, Temp: true}
	if l, err := Available(p); err != nil || l.String() != "none" || len(l.Missing) > 0 {
		t.Errorf("got %v, %v", l, err)
	}
	outside := write(t, t.TempDir()+"/file", "anything")
	if got := runChild(t, p, "read", outside); got != "done: anything\n" {
		t.Errorf("got %s", got)
	}
	if got := runChild(t, p, "env"); strings.Contains(got, "canary") || !strings.Contains(got, "HOME=") {
		t.Errorf("environment: %s", got)
	}
}

// What looks like a shim and is none does nothing but say so, and what looks like
// one a little is the program.
func TestShimByHand(t *testing.T) {
	self := testBinary(t)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no plan", []string{shim.Name, "199"}, // which no parent hands down
			"reading the plan: bad file descriptor"},
		{"not a plan", []string{shim.Name, "0"}, "the plan is damaged"},
		{"no number", []string{shim.Name, "-test.run=^$"}, "PASS"},
		{"more arguments", []string{shim.Name, "-test.run=^$", "0"}, "PASS"},
		{"another name", []string{"./" + shim.Name, childMark, "print"}, "done: \n"},
		{"a longer name", []string{shim.Name + "x", childMark, "print"}, "done: \n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, self)
			cmd.Args = tt.args
			cmd.Env = []string{"TOOLGATE_SANDBOX=1"}
			out, _ := cmd.CombinedOutput()
			if !strings.Contains(string(out), tt.want) {
				t.Errorf("got %s, want %q", out, tt.want)
			}
		})
	}
}

// A program has no capability, and no way to one.
func TestNoCapabilities(t *testing.T) {
	eachMachine(t, func(t *testing.T, _ machine) {
		if got := runChild(t, Policy{Mode: Auto}, "capabilities"); got != "done: 0 0 0, new privileges: false\n" {
			t.Errorf("got %s", got)
		}
	})
}
