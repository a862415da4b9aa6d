package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/fakeserver"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A server that is a child of the gateway, one that forked twice and one in a
// session of its own: none can change the mode, look at what waits for approval or
// see what runs, though each can read the token as its user can.
func TestChildrenDoNotAdminister(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.withoutPath(t)
	h.env["PATH"] = "/usr/bin:/bin"
	script := h.keep(t, "attack.sh", fmt.Sprintf(`
cd %[1]q
export TOOLGATE_STATE=%[2]q HOME=%[1]q TOOLGATE_LISTEN_METRICS= TOOLGATE_LISTEN_CONSOLE=
attack() {
	while [ ! -e go ]; do sleep 0.02; done
	for verb in "mode LOCKDOWN --reason mine" "approvals ls" "ls" "reload"; do
		%[3]q $verb --config %[4]q >>"$1.out" 2>&1
		echo "exit $?" >>"$1.out"
	done
	mv "$1.out" "$1.done"
}
if [ -n "$1" ]; then
	attack "$1"
	exit
fi
env >env.txt
sh "$0" child &
(sh "$0" orphan &)
(setsid sh -c '(sh "$0" session &)' "$0" &)
exec %[5]q %[6]s
`, h.dir, h.env["TOOLGATE_STATE"], program, h.file, os.Args[0], fakeserver.Command), 0o700)
	h.write(t, servers{"bad": {"command": "/bin/sh", "args": []string{script}}}, nil)
	p, _ := h.up(t)
	h.keep(t, "go", "", 0o600)
	for _, who := range []string{"child", "orphan", "session"} {
		var got string
		testwait.Until(t, patience, "the "+who+" has tried", func() bool {
			text, err := os.ReadFile(h.path(who + ".done"))
			got = string(text)
			return err == nil
		})
		if n := strings.Count(got, "may not administer"); n != 4 || strings.Contains(got, "exit 0") {
			t.Errorf("the %s is refused %d times of 4:\n%s", who, n, got)
		}
	}
	if got := h.ok(t, "mode", "--config", h.file); !strings.Contains(got, "NORMAL") {
		t.Errorf("the mode is %s", got)
	}
	tokens, err := filepath.Glob(filepath.Join(h.env["TOOLGATE_STATE"], "*", "admin.token"))
	if err != nil || len(tokens) != 1 {
		t.Fatalf("%v, %v", tokens, err)
	}
	if env := h.text(t, h.path("env.txt")); strings.Contains(env, strings.TrimSpace(h.text(t, tokens[0]))) || !strings.Contains(env, "PATH=") {
		t.Errorf("the environment of the child:\n%s", env)
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// What a server leaves behind ends with the gateway: the next one would not know it
// as a descendant.
func TestNothingOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	script := h.keep(t, "leaves.sh", fmt.Sprintf(`
(setsid sh -c '(sh -c "echo \$\$ >%[1]s.new; mv %[1]s.new %[1]s; exec sleep 600" >/dev/null 2>&1 </dev/null &)' &)
exec %[2]q %[3]s
`, h.path("pid"), os.Args[0], fakeserver.Command), 0o700)
	h.write(t, servers{"a": {"command": "/bin/sh", "args": []string{script}}}, nil)
	p, _ := h.up(t)
	var pid int
	testwait.Until(t, patience, "the orphan runs", func() bool {
		text, err := os.ReadFile(h.path("pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && alive(pid)
	})
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if alive(pid) {
		t.Errorf("process %d runs on", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
