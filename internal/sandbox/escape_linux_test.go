//go:build amd64 || arm64

package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// machines are what the tests pretend this machine to be: each layer has to hold by
// itself what it is there for, since not every machine has all of them.
func machines() map[string]machine {
	real := theMachine()
	list := map[string]machine{"all that there is": real}
	if real.namespaces {
		m := real
		m.namespaces, m.proc, m.maxPID = false, false, false
		if !raced {
			list["no namespaces"] = m
		}
		if m.landlock > 5 && !raced {
			m.landlock = 5
			list["no namespaces, an old Landlock"] = m
		}
		if m.landlock > 1 {
			m.landlock = 1
			list["no namespaces, the first Landlock"] = m
		}
	}
	return list
}

// pretend makes this machine another one for a test.
func pretend(t *testing.T, m machine) {
	t.Helper()
	real := theMachine
	theMachine = func() machine { return m }
	t.Cleanup(func() { theMachine = real })
}

// eachMachine runs a test on each of the machines.
func eachMachine(t *testing.T, test func(t *testing.T, m machine)) {
	for name, m := range machines() {
		t.Run(name, func(t *testing.T) {
			pretend(t, m)
			test(t, m)
		})
	}
}

// write makes a file for a test, and the folders that it is in.
func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every deed is tried twice: by this process, which must be able to do it, or the
// test shows nothing; and by the child, which must not.
func TestEscapesFail(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outside := write(t, folder+"/outside/secret", "the secret")
	readable := write(t, folder+"/readable/file", "may be read")
	writable := folder + "/writable"
	write(t, writable+"/file", "may be written")
	if err := os.Symlink(outside, writable+"/link"); err != nil {
		t.Fatal(err)
	}

	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() })
	listeners := map[string]string{"path": writable + "/socket", "abstract": "@toolgate-test-" + strconv.Itoa(os.Getpid())}
	for _, name := range listeners {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	grams, err := net.ListenPacket("unixgram", writable+"/grams")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = grams.Close() })
	me := strconv.Itoa(os.Getpid())

	for _, tt := range []struct {
		name string
		deed []string
	}{
		{"reads outside", []string{"read", outside}},
		{"reads through a link", []string{"read", writable + "/link"}},
		{"lists outside", []string{"list", folder + "/outside"}},
		{"lists the root", []string{"list", "/root"}},
		{"writes outside", []string{"write", folder + "/outside/new"}},
		{"writes over what is outside", []string{"write", outside}},
		{"writes through a link", []string{"write", writable + "/link"}},
		{"writes what may be read", []string{"write", readable}},
		{"removes what may be read", []string{"remove", readable}},
		{"renames outwards", []string{"rename", writable + "/file", folder + "/outside/file"}},
		{"links inwards", []string{"link", outside, writable + "/hard"}},
		{"runs what may be read", []string{"run", "/bin/sh", "-c", "true"}},
		{"sets the set-user-ID bit", []string{"chmod", writable + "/file", "4755"}},
		{"sets it through a descriptor", []string{"fchmod", writable + "/file", "4755"}},
		{"sets the set-group-ID bit without following", []string{"fchmodat2", writable + "/file", "2755"}},
		{"creates with it", []string{"create", writable + "/born", "4755"}},
		{"creates with it past the filter", []string{"openat2", writable + "/born2", "4755"}},
		{"makes a node with it", []string{"mknod", writable + "/node", "104755"}},
		{"makes a device", []string{"mknod", writable + "/null", "020666"}},
		{"opens what is outside to everyone", []string{"chmod", outside, "666"}},
		{"opens what may be read to everyone", []string{"chmod", readable, "666"}},
		{"opens it through a descriptor", []string{"fchmod", readable, "666"}},
		{"changes the mode of a device", []string{"chmod", "/dev/null", "666"}},
		{"changes the owner of what may be read", []string{"chown", readable}},
		{"changes attributes of what may be read", []string{"setxattr", readable}},
		{"cuts off what is outside", []string{"truncate", outside}},
		{"cuts off what may be read", []string{"truncate", readable}},
		{"cuts off what may be read while opening it", []string{"opentruncated", readable}},
		{"limits the gateway", []string{"prlimit", me}},
		{"slows the gateway down", []string{"setpriority", me}},
		{"moves the gateway to one processor", []string{"setaffinity", me}},
		{"connects by TCP", []string{"tcp", tcp.Addr().String()}},
		{"sends by UDP", []string{"udp", udp.LocalAddr().String()}},
		{"listens on TCP", []string{"listen", "tcp", "127.0.0.1:0"}},
		{"connects to a Unix socket", []string{"unix", listeners["path"]}},
		{"connects to an abstract Unix socket", []string{"unix", listeners["abstract"]}},
		{"listens on a Unix socket", []string{"listen", "unix", writable + "/mine"}},
		{"makes a raw socket", []string{"socket", "2", "3", "1"}},
		{"makes a packet socket", []string{"socket", "17", "3", "0"}},
		{"makes a netlink socket", []string{"socket", "16", "3", "0"}},
		{"makes a netlink socket for uevents", []string{"socket", "16", "3", "15"}},
		{"makes a vsock socket", []string{"socket", "40", "1", "0"}},
		{"sends with a pair of datagram sockets", []string{"socketpair", "2", writable + "/grams"}},
		{"sends with a pair of raw sockets", []string{"socketpair", "3", writable + "/grams"}},
		{"signals its parent", []string{"parent"}},
		{"signals the gateway", []string{"signal", me, "18"}},
		{"asks whether the gateway is there", []string{"signal", me, "0"}},
		{"reads the environment of the gateway", []string{"read", "/proc/" + me + "/environ"}},
		{"reads the environment of init", []string{"read", "/proc/1/environ"}},
		{"reads the descriptors of the gateway", []string{"list", "/proc/" + me + "/fd"}},
		{"traces the gateway", []string{"ptrace", me}},
		{"reads the memory of the gateway", []string{"readmemory", me}},
		{"becomes somebody else", []string{"setuid"}},
		{"makes namespaces", []string{"unshare"}},
		{"makes namespaces with clone", []string{"clone"}},
		{"makes namespaces with clone3", []string{"clone3"}},
		{"mounts", []string{"mount", writable}},
		{"sets up an io_uring", []string{"iouring"}},
		{"loads a program into the kernel", []string{"bpf"}},
		{"uses keys", []string{"keyctl"}},
		{"makes files in memory", []string{"memfd"}},
		{"calls what will be made one day", []string{"future"}},
		{"outlives the gateway", []string{"orphaned"}},
		{"types into the terminal", []string{"tiocsti"}},
		{"opens the terminal", []string{"opentty"}},
		{"reads the kernel's symbols", []string{"read", "/proc/kallsyms"}},
		{"writes a setting of the system", []string{"write", "/proc/sys/kernel/core_pattern"}},
		{"lists devices", []string{"list", "/sys/class"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachMachine(t, func(t *testing.T, m machine) {
				if tt.name == "reads the environment of init" && m.namespaces {
					return // it is its own
				}
				p := Policy{Mode: Auto, Temp: true, Read: []string{folder + "/readable"}, Write: []string{writable}}
				if got := runChild(t, p, tt.deed[0], tt.deed[1:]...); !strings.HasPrefix(got, "error:") {
					t.Errorf("it could: %s", got)
				}
			})
		})
	}
	for path, want := range map[string]string{outside: "the secret", readable: "may be read", writable + "/file": "may be written"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
	if _, err := os.Stat(writable + "/born2"); err == nil {
		t.Error("a file was created past the filter")
	}
	if err := syscall.Access(writable+"/hard", 0); err == nil {
		t.Error("a file from outside was linked")
	}
}
