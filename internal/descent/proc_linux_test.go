package descent

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
)

// Processes that do not descend from this one are told from those that do.
func TestDescent(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for pid, want := range map[int]bool{cmd.Process.Pid: true, os.Getppid(): false, 1: os.Getpid() == 1} {
		if got := descends(pid); got != want {
			t.Errorf("process %d descends: %v", pid, got)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !descends(cmd.Process.Pid) {
		t.Error("one that has ended, and could be anybody, is taken for a stranger")
	}
}

func TestOfThisMachine(t *testing.T) {
	t.Parallel()
	own, err := net.InterfaceAddrs()
	if err != nil || len(own) == 0 {
		t.Fatalf("%v, %v", own, err)
	}
	for _, o := range own {
		if prefix := netip.MustParsePrefix(o.String()); !ofThisMachine(prefix.Addr()) {
			t.Errorf("%v is taken for another machine's", prefix)
		}
	}
	for _, far := range []string{"203.0.113.7", "2001:db8::7"} {
		if ofThisMachine(netip.MustParseAddr(far)) {
			t.Errorf("%s is taken for this machine's", far)
		}
	}
}

func TestProcAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0100007F:1E61":                         "127.0.0.1:7777",
		"00000000000000000000000001000000:0050": "[::1]:80",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
	} {
		if got, ok := procAddress(text); !ok || got != netip.MustParseAddrPort(want) {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, text := range []string{"", "x", "0100007F", "0100007F:", "01:50", "0100007F:1FFFF", "zz00007F:50"} {
		if got, ok := procAddress(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzStatFields(f *testing.F) {
	f.Add([]byte("1 (a b) c) S 7 1 1"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, text []byte) {
		if state, _, err := statFields(text); err == nil && state == 0 {
			t.Error("no state")
		}
	})
}
