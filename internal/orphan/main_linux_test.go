package orphan

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/testwait"
)

// mark is the variable by which the processes of a test are found, whoever their
// parent is.
const mark = "ORPHAN_TEST_MARK"

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 20 * time.Second

// soon is how long everything may take to end that a guardian ends, on a machine that is busy.
const soon = 10 * time.Second

// TestMain also is the gateway that is killed: the tests run this program.
func TestMain(m *testing.M) {
	if deed := deeds[os.Getenv("ORPHAN_TEST_DEED")]; deed != nil {
		if err := deed(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// deeds are what this program does as a gateway, by name. Each prints a line when it
// is done, and is killed then.
var deeds = map[string]func() error{
	"family": func() error {
		_, _, err := start(&own, family)
		return ready(err)
	},
	// It is killed before the gate knows which program it becomes.
	"gate": func() error {
		own.expect()
		g, err := own.openGate(&os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true}})
		if err != nil {
			return err
		}
		fmt.Println("gate", g.process.Pid)
		return ready(nil)
	},
	// A child that has left its group, and whose parent has ended.
	"stray": func() error {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return err
		}
		_, _, err := start(&own, `(setsid sh -c 'echo up; sleep 600 & wait' &); echo up; exec sleep 600`)
		Look()
		// The guardian has looked when it sleeps and nothing is left to be read.
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range 5 {
			<-tick.C
			for !asleep(Guardian()) {
				<-tick.C
			}
		}
		return ready(err)
	},
	// One that has ended, as far as anybody was told.
	"ended": func() error {
		_, c, err := start(&own, family)
		c.Ended()
		return ready(err)
	},
}

// family are processes that do not end by themselves: in one group, in another one
// and in another session.
const family = `trap '' TERM HUP INT
sh -c 'trap "" TERM HUP INT; echo up; sleep 600 & wait; sleep 600' &
setsid sh -c 'trap "" TERM HUP INT; echo up; sleep 600 & wait' &
set -m 2>/dev/null
sleep 600 &
echo up
while :; do wait; done`

// start starts a shell as the leader of a group, with nothing but a guardian that ends
// it with this process, and returns when it has said as often that it is up as it
// does.
func start(k *keeper, script string) (*os.Process, *Child, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	process, c, err := k.start("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{nil, writer, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	writer.Close()
	if err != nil {
		return nil, nil, err
	}
	var said []byte
	for bytes.Count(said, []byte("up\n")) < strings.Count(script, "echo up") {
		part := make([]byte, 64)
		n, err := reader.Read(part)
		if err != nil {
			return nil, nil, err
		}
		said = append(said, part[:n]...)
	}
	return process, c, nil
}

func asleep(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") S "))
}

func ready(err error) error {
	if err != nil {
		return err
	}
	fmt.Println("ready", Guardian())
	testwait.Hang()
	return nil
}

func init() {
	if os.Getenv("ORPHAN_TEST_DEED") != "" {
		Guard(func(err error) { fmt.Fprintln(os.Stderr, "warning:", err) })
	}
}

// gateway is a run of this program as one.
type gateway struct {
	cmd      *exec.Cmd
	mark     string
	guardian int
	gate     int // 0 is none
}

// run starts a gateway and returns when its deed is done. It may be given further
// files.
func run(t *testing.T, deed string, files ...*os.File) *gateway {
	t.Helper()
	g := &gateway{mark: rand.Text()}
	g.cmd = exec.Command("/proc/self/exe")
	g.cmd.Env = []string{"ORPHAN_TEST_DEED=" + deed, mark + "=" + g.mark, "PATH=" + os.Getenv("PATH")}
	g.cmd.Stderr, g.cmd.ExtraFiles = os.Stderr, files
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = g.cmd.Process.Kill() // where a test has failed
		_ = g.cmd.Wait()
		for _, pid := range g.left(t) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if deed == "gate" {
		if _, err := fmt.Fscanf(out, "gate %d\n", &g.gate); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fmt.Fscanf(out, "ready %d\n", &g.guardian); err != nil || g.guardian == 0 {
		t.Fatalf("guardian %d: %v", g.guardian, err)
	}
	return g
}

// kill kills the gateway.
func (g *gateway) kill(t *testing.T) {
	t.Helper()
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = g.cmd.Wait()
}

// left are the processes of the gateway that run, without itself and its guardian.
func (g *gateway) left(t *testing.T) []int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	if g.gate != 0 && runs(g.gate) { // which has nothing in its environment
		out = append(out, g.gate)
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(mark+"="+g.mark)) {
			continue // or it has ended
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != g.cmd.Process.Pid && runs(pid) {
			out = append(out, pid)
		}
	}
	return out
}

// runs tells whether a process is there and is more than a zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
