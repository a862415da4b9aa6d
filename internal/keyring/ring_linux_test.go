package keyring

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/testwait"
)

// program finds a program that a test needs. Without it the test is skipped, unless CI is
// set: there that is a failure.
func program(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "" {
		t.Skipf("%s is not installed (on Debian: apt-get install %s)", name, debian)
	}
	t.Fatal(err)
	return ""
}

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=%s/bus</listen>
  <policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy>
</busconfig>
`

// session starts a D-Bus session on which nothing runs, for this process, and returns the
// folder of its socket.
func session(t *testing.T) string {
	t.Helper()
	daemon := program(t, "dbus-daemon", "dbus")
	dir, err := os.MkdirTemp("", "bus") //nolint:usetesting // t.TempDir is too long for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "session.conf")
	write(t, file, fmt.Sprintf(busConfig, dir), 0o600)
	cmd := exec.CommandContext(t.Context(), daemon, "--nofork", "--nopidfile", "--print-address", "--config-file="+file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	run(t, cmd)
	address, err := bufio.NewReader(out).ReadString('\n') // when the bus listens
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))
	return dir
}

// run starts a program that ends with the test.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // ended by the context of the test
}

// A real key ring keeps what is set, for several processes at once.
func TestGNOMEKeyring(t *testing.T) {
	daemon := program(t, "gnome-keyring-daemon", "gnome-keyring")
	dir := session(t)
	cmd := exec.CommandContext(t.Context(), daemon, "--foreground", "--unlock", "--components=secrets", "--control-directory="+dir)
	cmd.Stdin = strings.NewReader("password of the key ring")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_RUNTIME_DIR="+dir)
	run(t, cmd)
	bus := connect(t)
	testwait.Until(t, 20*time.Second, "the key ring is there", func() bool {
		var has bool
		err := bus.BusObject().CallWithContext(t.Context(), "org.freedesktop.DBus.NameHasOwner", 0, "org.freedesktop.secrets").Store(&has)
		return err == nil && has
	})

	s, err := New(t.TempDir(), "auto")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, value := range map[string]string{"TOKEN": "first", "lines": "a\nb\n", "long": strings.Repeat("x", MaxValue), "text": "ünï \"'$(true)`"} {
		place, err := s.Set(ctx, name, value)
		if err != nil || place != InSystem {
			t.Fatalf("%s: %q, %v", name, place, err)
		}
		if got, err := s.Get(ctx, name); err != nil || got != value {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if data, err := os.ReadFile(s.Path()); err != nil || strings.Contains(string(data), "sealed") {
		t.Errorf("%s, %v", data, err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := s.Set(ctx, "TOKEN", fmt.Sprint("value ", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, err := s.Get(ctx, "TOKEN"); err != nil || !strings.HasPrefix(got, "value ") {
		t.Errorf("after concurrent changes: %q, %v", got, err)
	}
	if err := s.Remove(ctx, "TOKEN"); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(ctx, "TOKEN"); !errors.Is(err, ErrNone) {
		t.Errorf("after it was removed: %v", err)
	}
	if err := s.Remove(ctx, "TOKEN"); !errors.Is(err, ErrNone) {
		t.Errorf("removed again: %v", err)
	}
}

func connect(t *testing.T) *dbus.Conn {
	t.Helper()
	bus, err := dbus.ConnectSessionBus()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	return bus
}

// Where nobody on the bus keeps secrets, and where there is no bus, the file does.
func TestNoKeyring(t *testing.T) {
	for name, arrange := range map[string]func(t *testing.T){
		"an empty bus":  func(t *testing.T) { t.Helper(); session(t) },
		"no bus":        func(t *testing.T) { t.Helper(); t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus") },
		"a strange bus": func(t *testing.T) { t.Helper(); t.Setenv("DBUS_SESSION_BUS_ADDRESS", "none of that") },
	} {
		t.Run(name, func(t *testing.T) {
			arrange(t)
			s, err := New(t.TempDir(), "auto")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Get(t.Context(), "TOKEN"); !errors.Is(err, ErrNone) {
				t.Errorf("get: %v", err)
			}
			place, err := s.Set(t.Context(), "TOKEN", "value")
			if err != nil || place != Place(s.Path()) {
				t.Errorf("set: %q, %v", place, err)
			}
			if err := s.Remove(t.Context(), "TOKEN"); err != nil {
				t.Errorf("remove: %v", err)
			}
		})
	}
}

// locked is a key ring that asks a person who is not there, or says nothing at all.
type locked struct {
	silent bool
	asked  chan struct{}
	end    <-chan struct{}
}

func (l *locked) Unlock([]dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	l.asked <- struct{}{}
	if l.silent {
		<-l.end
	}
	return []dbus.ObjectPath{}, "/org/freedesktop/secrets/prompt/1", nil
}

// prompt is a window that nobody answers.
type prompt struct{}

func (prompt) Prompt(string) *dbus.Error { return nil }

// A call that is given up ends, and leaves no goroutine and no connection behind.
func TestLockedRing(t *testing.T) {
	for name, silent := range map[string]bool{"it asks a person": false, "it says nothing": true} {
		t.Run(name, func(t *testing.T) {
			session(t)
			server := connect(t)
			end := make(chan struct{})
			defer close(end)
			l := &locked{silent: silent, asked: make(chan struct{}, 1), end: end}
			err := errors.Join(
				server.Export(l, "/org/freedesktop/secrets", "org.freedesktop.Secret.Service"),
				server.Export(prompt{}, "/org/freedesktop/secrets/prompt/1", "org.freedesktop.Secret.Prompt"))
			if _, no := server.RequestName("org.freedesktop.secrets", dbus.NameFlagDoNotQueue); no != nil || err != nil {
				t.Fatal(err, no)
			}
			before := goleak.IgnoreCurrent()
			s, err := New(t.TempDir(), "auto")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { // ends when the key ring is asked, or with the test
				select {
				case <-l.asked:
				case <-t.Context().Done():
				}
				cancel()
			}()
			if _, err := s.Get(ctx, "TOKEN"); err == nil || !strings.Contains(err.Error(), "may be locked") {
				t.Errorf("get: %v", err)
			}
			if !silent { // a silent one is in this process, and ends with the test
				goleak.VerifyNone(t, before)
			}
			testwait.Until(t, 20*time.Second, "the call has ended", func() bool { return len(s.system.slot) == 0 })
		})
	}
}
