//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deeds are what the child can be told to do. Each says what came of it.
var deeds = map[string]func(args []string) (string, error){
	"print": func(args []string) (string, error) { return strings.Join(args, " "), nil },
	"env":   func([]string) (string, error) { return strings.Join(os.Environ(), "\n"), nil },
	"where": func([]string) (string, error) { return os.Getwd() },
	"self":  func([]string) (string, error) { return os.Executable() },
	"pid":   func([]string) (string, error) { return strconv.Itoa(os.Getpid()), nil },
	"read": func(args []string) (string, error) {
		data, err := os.ReadFile(args[0])
		return string(data), err
	},
	"list": func(args []string) (string, error) {
		entries, err := os.ReadDir(args[0])
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " "), err
	},
	"write":   func(args []string) (string, error) { return "", os.WriteFile(args[0], []byte("written"), 0o600) },
	"remove":  func(args []string) (string, error) { return "", os.Remove(args[0]) },
	"rename":  func(args []string) (string, error) { return "", os.Rename(args[0], args[1]) },
	"link":    func(args []string) (string, error) { return "", os.Link(args[0], args[1]) },
	"symlink": func(args []string) (string, error) { return "", os.Symlink(args[0], args[1]) },
	"run": func(args []string) (string, error) {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		return string(out), err
	},
	// The bits of Go's FileMode are not those of the system, so these are system calls.
	"chmod": func(args []string) (string, error) { return "", syscall.Chmod(args[0], mode(args[1])) },
	"fchmod": func(args []string) (string, error) {
		fd, err := syscall.Open(args[0], syscall.O_RDONLY, 0)
		if err != nil {
			return "", err
		}
		return "", syscall.Fchmod(fd, mode(args[1]))
	},
	"fchmodat2": func(args []string) (string, error) {
		return "", unix.Fchmodat(unix.AT_FDCWD, args[0], mode(args[1]), unix.AT_SYMLINK_NOFOLLOW)
	},
	"create": func(args []string) (string, error) {
		_, err := syscall.Open(args[0], syscall.O_CREAT|syscall.O_WRONLY, mode(args[1]))
		return "", err
	},
	"mknod": func(args []string) (string, error) {
		return "", syscall.Mknod(args[0], mode(args[1]), 0)
	},
	"openat2": func(args []string) (string, error) {
		_, err := unix.Openat2(unix.AT_FDCWD, args[0], &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: uint64(mode(args[1]))})
		return "", err
	},
	"tcp":  func(args []string) (string, error) { return dial("tcp", args[0]) },
	"udp":  func(args []string) (string, error) { return dial("udp", args[0]) },
	"unix": func(args []string) (string, error) { return dial("unix", args[0]) },
	"listen": func(args []string) (string, error) {
		l, err := net.Listen(args[0], args[1])
		if err != nil {
			return "", err
		}
		return "", l.Close()
	},
	"socket": func(args []string) (string, error) {
		_, err := unix.Socket(number(args[0]), number(args[1]), number(args[2]))
		return "", err
	},
	// A pair of sockets that are not streams sends to whatever address it is told.
	"socketpair": func(args []string) (string, error) {
		pair, err := unix.Socketpair(unix.AF_UNIX, number(args[0]), 0)
		if err != nil || len(args) == 1 {
			return "", err
		}
		return "", unix.Sendto(pair[0], []byte("smuggled"), 0, &unix.SockaddrUnix{Name: args[1]})
	},
	"repair": func(args []string) (string, error) { return "", repair(number(args[0]), args[1]) },
	"signal": func(args []string) (string, error) {
		return "", syscall.Kill(number(args[0]), syscall.Signal(number(args[1])))
	},
	"parent": func([]string) (string, error) {
		parent := syscall.Getppid()
		if parent == 0 {
			return "", errors.New("the parent is outside the namespace")
		}
		return "", syscall.Kill(parent, syscall.SIGCONT)
	},
	"ptrace": func(args []string) (string, error) { return "", unix.PtraceAttach(number(args[0])) },
	"readmemory": func(args []string) (string, error) {
		var b [8]byte
		_, err := unix.ProcessVMReadv(number(args[0]), []unix.Iovec{{Base: &b[0], Len: 8}},
			[]unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b)), Len: 8}}, 0)
		return "", err
	},
	"prlimit": func(args []string) (string, error) {
		return "", unix.Prlimit(number(args[0]), unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	},
	"setpriority": func(args []string) (string, error) {
		return "", unix.Setpriority(unix.PRIO_PROCESS, number(args[0]), 1)
	},
	"setaffinity": func(args []string) (string, error) {
		var set unix.CPUSet
		set.Set(0)
		return "", unix.SchedSetaffinity(number(args[0]), &set)
	},
	"truncate": func(args []string) (string, error) { return "", syscall.Truncate(args[0], 0) },
	"opentruncated": func(args []string) (string, error) {
		_, err := syscall.Open(args[0], syscall.O_RDONLY|syscall.O_TRUNC, 0)
		return "", err
	},
	"chown":    func(args []string) (string, error) { return "", syscall.Chown(args[0], os.Getuid(), os.Getgid()) },
	"setxattr": func(args []string) (string, error) { return "", unix.Setxattr(args[0], "user.x", []byte("x"), 0) },
	"setuid": func([]string) (string, error) {
		if err := syscall.Setreuid(12345, 12345); err != nil {
			return "", err
		}
		return "", syscall.Setreuid(0, 0)
	},
	"capabilities": func([]string) (string, error) {
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&head, &data[0]); err != nil {
			return "", err
		}
		bounding := 0
		for c := range uintptr(unix.CAP_LAST_CAP + 1) {
			if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && os.Geteuid() == 0 {
				bounding += has
			}
		}
		kept, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		return fmt.Sprintf("%d %d %d, new privileges: %t", data[0].Permitted|data[1].Permitted,
			data[0].Effective|data[1].Effective, bounding, kept == 0), err
	},
	"status": func([]string) (string, error) {
		data, err := os.ReadFile("/proc/self/status")
		return string(data), err
	},
	"unshare":  func([]string) (string, error) { return "", unix.Unshare(unix.CLONE_NEWUSER) },
	"mount":    func(args []string) (string, error) { return "", unix.Mount("none", args[0], "tmpfs", 0, "") },
	"iouring":  call(425, 1, 0, 0),
	"bpf":      call(unix.SYS_BPF, 0, 0, 0),
	"keyctl":   call(unix.SYS_KEYCTL, 0, 0, 0),
	"memfd":    func([]string) (string, error) { _, err := unix.MemfdCreate("x", 0); return "", err },
	"clone3":   call(unix.SYS_CLONE3, 0, 0, 0),
	"clone":    call(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(syscall.SIGCHLD), 0, 0),
	"future":   call(900, 0, 0, 0),
	"orphaned": call(unix.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, 0, 0),
	"tiocsti": func([]string) (string, error) {
		c := byte('x')
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		return "", errno
	},
	"opentty": func([]string) (string, error) { _, err := os.Open("/dev/tty"); return "", err },
	"descriptors": func([]string) (string, error) {
		var open []string
		for fd := range 1024 {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
				name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
				open = append(open, fmt.Sprintf("%d=%s", fd, name))
			}
		}
		return strings.Join(open, " "), nil
	},
	"forkbomb": forkBomb,
	"memory": func(args []string) (string, error) {
		return grow(number(args[0]), func(b []byte) error { return nil }, unix.MAP_PRIVATE)
	},
	"shared": func(args []string) (string, error) {
		return grow(number(args[0]), func(b []byte) error { return nil }, unix.MAP_SHARED)
	},
	// Memory that was written and is read-only now is not data any more.
	"mprotect": func(args []string) (string, error) {
		return grow(number(args[0]), func(b []byte) error { return unix.Mprotect(b, unix.PROT_READ) }, unix.MAP_PRIVATE)
	},
	"spin": func(args []string) (string, error) {
		if len(args) > 0 { // heeds the signal
			told := make(chan os.Signal, 1)
			signal.Notify(told, syscall.SIGXCPU)
			go func() {
				fmt.Println("caught", <-told == syscall.SIGXCPU)
				os.Exit(0)
			}()
		}
		for n := 0; ; n++ {
			if n < 0 {
				return "", nil
			}
		}
	},
	"bigfile": func(args []string) (string, error) {
		signal.Ignore(syscall.SIGXFSZ)
		f, err := os.Create(args[0])
		if err != nil {
			return "", err
		}
		return "", f.Truncate(int64(number(args[1])))
	},
	"manyfiles": func(args []string) (string, error) {
		for range number(args[0]) {
			if _, err := syscall.Open(os.DevNull, 0, 0); err != nil {
				return "", err
			}
		}
		return "", nil
	},
	// A grandchild in a session of its own, which holds the output open.
	"leave": func([]string) (string, error) {
		cmd := exec.Command(os.Args[0], childMark, "hang")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdout = os.Stdout
		return "", cmd.Start()
	},
	"spawn": func([]string) (string, error) {
		cmd := exec.Command(os.Args[0], childMark, "hang")
		cmd.Stdout = os.Stdout
		return "", cmd.Start()
	},
	"hang": func([]string) (string, error) {
		fmt.Println("hanging")
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGUSR2)
		<-c
		return "", nil
	},
	"crash": func([]string) (string, error) { panic("crash") },
}

// child does a deed and prints the answer, or the error.
func doDeed(deed string, args []string) int {
	text, err := deeds[deed](args)
	if err != nil {
		fmt.Printf("error: %v %s\n", err, text)
		return 1
	}
	fmt.Printf("done: %s\n", text)
	return 0
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func mode(s string) uint32 {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil {
		panic(err)
	}
	return uint32(n)
}

func call(nr, a, b, c uintptr) func([]string) (string, error) {
	return func([]string) (string, error) {
		r, _, errno := syscall.RawSyscall6(nr, a, b, c, 0, 0, 0)
		if errno != 0 {
			return "", errno
		}
		if nr == unix.SYS_CLONE && r == 0 {
			syscall.Exit(0)
		}
		return "", nil
	}
}

func dial(network, address string) (string, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return "", err
	}
	if _, err := c.Write([]byte("escaped")); err != nil {
		return "", err
	}
	return "", c.Close()
}

// forkBomb starts processes until that fails, and says how many it got.
func forkBomb(args []string) (string, error) {
	for n := range number(args[0]) {
		cmd := exec.Command(os.Args[0], childMark, "hang")
		if err := cmd.Start(); err != nil {
			return strconv.Itoa(n), err
		}
	}
	return args[0], nil
}

// grow takes memory in pieces of 16 MiB until that fails, and says how much it got.
func grow(limit int, then func([]byte) error, flags int) (string, error) {
	const piece = 16 << 20
	for got := 0; got < limit; got += piece {
		b, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|flags)
		if err != nil {
			return strconv.Itoa(got), err
		}
		for i := 0; i < piece; i += 1 << 16 { // some of the pages are enough to count
			b[i] = 1
		}
		if err := then(b); err != nil {
			return "", err
		}
	}
	return strconv.Itoa(limit), nil
}

// repair tries to turn one of a pair of sockets into a connection to somebody else. No error
// says that it did.
func repair(kind int, address string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrUnix{Name: address}
	for _, loosen := range []func() error{
		func() error { return nil },
		func() error { return unix.Shutdown(pair[0], unix.SHUT_RDWR) },
		func() error { return unix.Close(pair[1]) },
	} {
		if err := loosen(); err != nil {
			return err
		}
		if err = unix.Connect(pair[0], to); err == nil {
			return nil
		}
		if unix.Sendto(pair[0], []byte("smuggled"), unix.MSG_NOSIGNAL, to) == nil {
			var b [8]byte // the other one of the pair has to have it
			if _, _, _ = unix.Recvfrom(pair[1], b[:], unix.MSG_DONTWAIT); string(b[:]) != "smuggled" {
				return nil
			}
		}
	}
	return err
}
