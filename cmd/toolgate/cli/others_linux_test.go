//go:build e2e

package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
)

// aside runs a gateway that is not one of this process tree: prepare changes how it is
// started. It returns once commands of the same place can find it.
func (h *home) aside(t *testing.T, prepare func(*exec.Cmd)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := h.command(ctx, "up", "-c", h.file)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	prepare(cmd)
	log, err := os.Create(h.path("gateway.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was asked to end
	})
	said := func() string {
		text, _ := os.ReadFile(log.Name()) // a part of it will do
		return string(text)
	}
	if !testwait.Within(patience, func() bool { return strings.Contains(said(), "\nready ") }) {
		t.Fatalf("the gateway says\n%s", said())
	}
}

// saying runs commands and looks for what they say.
func (h *home) saying(t *testing.T, rows []struct{ command, want string }) {
	t.Helper()
	for _, row := range rows {
		o := h.run(t, strings.Fields(row.command)...)
		if !regexp.MustCompile(row.want).MatchString(o.stdout + o.stderr) {
			t.Errorf("toolgate %s says\n%s%s\nwhich does not match %s", row.command, o.stdout, o.stderr, row.want)
		}
	}
}

// TestGatewayInAContainer runs a gateway in a PID namespace of its own, with the same state
// folder, and asks it from outside: it has another PID here than there. Commands in a
// namespace beside it do not see its process at all.
func TestGatewayInAContainer(t *testing.T) {
	t.Parallel()
	unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	if out, err := exec.CommandContext(t.Context(), unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("not checked: a gateway in another PID namespace, because this system does not let one be made: %v %s", err, out)
	}
	within := func(cmd *exec.Cmd) {
		path, err := exec.LookPath(unshare[0])
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args = append(append(slices.Clip(unshare), cmd.Path), cmd.Args[1:]...)
		cmd.Path = path
		cmd.Cancel = func() error { return cmd.Process.Kill() } // unshare ignores other signals, and its end kills the gateway
	}
	h := newHome(t)
	h.write(t, servers{"off": {"command": "x", "disabled": true}}, nil)
	h.aside(t, within)

	h.saying(t, []struct{ command, want string }{
		{"ls", `off +stdio +disabled`},
		{"status", `mode NORMAL`},
		{"reload", `nothing to apply`},
		{"logs off", `.`},
		{"ls -c " + h.file, `off +stdio +disabled`},
		{"up -c " + h.file, `this gateway is running already: pid \d{2,}, http://127\.0\.0\.1:\d+`},
	})
	o := h.run(t, "stop")
	var pid int
	if _, err := fmt.Sscanf(o.stdout[strings.LastIndex(o.stdout, "`"+"kill ")+1:], "kill %d", &pid); err != nil || pid < 2 {
		t.Fatalf("stop says %s", o.stdout)
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.HasPrefix(string(command), program+"\x00up\x00") {
		t.Errorf("the process to kill, %d, is %q, %v", pid, command, err)
	}

	for _, row := range []struct{ command, want string }{
		{"stop", `is a process of another container: stop it there\n`},
		{"ls", `off +stdio +disabled`},
		{"up -c " + h.file, `this gateway is running already: a process of another container, http`},
	} {
		cmd := h.command(t.Context(), strings.Fields(row.command)...)
		within(cmd)
		out, err := cmd.CombinedOutput() // exit codes differ
		if !regexp.MustCompile(row.want).Match(out) {
			t.Errorf("beside it, toolgate %s says %s, %v", row.command, out, err)
		}
	}
}

// TestGatewayOfAnotherUser runs a gateway as one user and commands as another one, each with
// a home of their own, and then with the same state folder.
func TestGatewayOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("not checked: the gateway of another user, which only root can start")
	}
	const theirs, ours = 65533, 65534
	shared := t.TempDir()
	for dir := shared; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(shared, "toolgate")
	// A process that another test starts meanwhile would keep the file open for writing until
	// it is itself, and a program that is open so cannot be run.
	syscall.ForkLock.RLock()
	err = os.WriteFile(bin, text, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string, uid uint32) (*home, func(*exec.Cmd)) {
		h := newHome(t)
		dir := filepath.Join(shared, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, int(uid), int(uid)); err != nil {
			t.Fatal(err)
		}
		for key, value := range h.env {
			h.env[key] = strings.ReplaceAll(value, h.dir, dir)
		}
		return h, func(cmd *exec.Cmd) {
			cmd.Path, cmd.Dir = bin, shared
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		}
	}
	they, asThem := of("they", theirs)
	we, asUs := of("we", ours)
	file := filepath.Join(shared, "toolgate.yaml")
	if err := os.WriteFile(file, []byte("mcpServers:\n  off: { command: x, disabled: true }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	they.file = file
	they.aside(t, asThem)
	says := func(command, want string) {
		t.Helper()
		cmd := we.command(t.Context(), strings.Fields(command)...)
		asUs(cmd)
		out, err := cmd.CombinedOutput() // exit codes differ
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("toolgate %s says %s, %v\nwhich does not match %s", command, out, err, want)
		}
	}
	secret := filepath.Join(shared, "secret.json")
	if err := os.WriteFile(secret, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	says("validate "+secret, `^toolgate: \S+: the file may not be read; check its permissions\n$`)
	const none = "no gateway is running with this configuration, "
	says("stop", `^no gateway is running\n$`)
	for _, command := range []string{"status", "reload", "logs off", "top"} {
		says(command+" -c "+file, none)
	}
	says("ls -c "+file, `(?s)no gateway is running with .*: its servers are started for this command only.*off +stdio +disabled`)

	// With the same state folder, nothing of the other user can be read.
	we.env["TOOLGATE_STATE"] = they.env["TOOLGATE_STATE"]
	for _, command := range []string{"stop", "ls", "status", "reload", "logs off", "top"} {
		says(command, `^toolgate: look for running gateways: access to \S+ is not permitted; check its owner and permissions\n$`)
	}
	says("up -c "+file, `^toolgate: make the state folder: access to \S+ is not permitted; set TOOLGATE_STATE to a folder that you may write to\n$`)
}
