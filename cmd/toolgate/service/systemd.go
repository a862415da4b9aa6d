package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/failure"
)

// unitName is the unit of systemd.
const unitName = "toolgate.service"

// systemd is the manager of user units (systemd.unit(5), systemctl(1)).
type systemd struct{}

func (systemd) path() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", failure.Newf(failure.Config, "find the folder of user units: %w", err)
	}
	return filepath.Join(dir, "systemd", "user", unitName), nil
}

// hardening is what a user unit can take away without a namespace of its own, and what no
// server needs that runs as its user. Files of the home folder stay writable, and no umask
// is set, because servers write files that others may read.
const hardening = `# What follows takes rights away from the gateway and its servers. They may write wherever
# you may. Rootless Podman as a server needs NoNewPrivileges=no and no SystemCallFilter=.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM
`

func (systemd) unit(g gateway) (string, error) {
	if strings.ContainsAny(g.program, `"'\`) {
		return "", failure.Newf(failure.Usage, "systemd starts no program whose path has quotes or a backslash: move %s elsewhere", g.program)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s Change it with\n# `systemctl --user edit toolgate`.\n", written)
	fmt.Fprintf(&b, "[Unit]\nDescription=%s\nDocumentation=https://github.com/toolgate/toolgate\nStartLimitIntervalSec=300\nStartLimitBurst=5\n\n", about)
	// With the colon, variables in the arguments are not replaced, so "$" is itself.
	line := []string{quoted(":" + g.program)}
	for _, arg := range g.args() {
		if filepath.IsAbs(arg) {
			arg = quoted(arg)
		}
		line = append(line, arg)
	}
	fmt.Fprintf(&b, "[Service]\nType=exec\nExecStart=%s\nExecReload=/bin/kill -HUP $MAINPID\n", strings.Join(line, " "))
	for _, v := range g.env {
		fmt.Fprintf(&b, "Environment=%s\n", quoted(v[0]+"="+v[1]))
	}
	b.WriteString("Restart=on-failure\nRestartSec=5\n# Nothing of a server survives a gateway that was killed.\nKillMode=control-group\n")
	fmt.Fprintf(&b, "TimeoutStopSec=%d\nLimitNOFILE=65536\n\n%s\n[Install]\nWantedBy=default.target\n", stopSeconds, hardening)
	return b.String(), nil
}

// quoted is one item of a line (systemd.syntax(7)) without specifiers (systemd.unit(5)).
func quoted(item string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(item) + `"`
}

func (systemd) reload(ctx context.Context) error {
	_, err := systemctl(ctx, "daemon-reload")
	return err
}

func (systemd) next(_ string, replaced bool) string {
	if replaced {
		return "systemctl --user enable " + unitName + " && systemctl --user restart " + unitName
	}
	return "systemctl --user enable --now " + unitName
}

func (systemd) log() string { return "journalctl --user -u " + unitName }

func (systemd) stays() string {
	return "to keep it running while you are not logged in: loginctl enable-linger\n"
}

func (systemd) stop(ctx context.Context, path string) error {
	_, err := systemctl(ctx, "disable", "--now", unitName)
	if err != nil { // what enabled it would point to nothing
		_ = os.Remove(filepath.Join(filepath.Dir(path), "default.target.wants", unitName))
	}
	return err
}

func (systemd) state(ctx context.Context) (string, bool, error) {
	out, err := systemctl(ctx, "show", "--property=ActiveState,SubState,UnitFileState,MainPID,NRestarts,Result", unitName)
	if err != nil {
		return "", false, err
	}
	is := map[string]string{}
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			is[name] = value
		}
	}
	at := "does not start when you log in"
	if is["UnitFileState"] == "enabled" {
		at = "starts when you log in"
	}
	line := fmt.Sprintf("%s (%s), %s", is["ActiveState"], is["SubState"], at)
	if is["ActiveState"] != "active" {
		return fmt.Sprintf("%s, the last result is %s", line, is["Result"]), false, nil
	}
	return fmt.Sprintf("%-10s pid %s, restarted %s times, %s", is["ActiveState"], is["MainPID"], is["NRestarts"], at), true, nil
}

// systemctl asks the user's manager.
func systemctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "systemctl", append([]string{"--user", "--no-ask-password"}, args...)...)
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	return "", explained(err, strings.TrimSpace(said.String()), strings.Join(args, " "))
}

// explained says why the user's manager did not do what it was asked for.
func explained(err error, said, asked string) error {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return failure.Newf(failure.Unreachable, "systemctl is not installed, so nothing here starts units of systemd; let what this system has start `toolgate up -c FILE`")
	case errors.Is(err, context.DeadlineExceeded):
		return failure.Newf(failure.Unreachable, "`systemctl --user %s` did not end in time", asked)
	}
	for _, sign := range []string{"connect to bus", "connect to user scope bus", "not been booted with systemd", "No medium found"} {
		if strings.Contains(said, sign) {
			return failure.Newf(failure.Unreachable, `the user's systemd cannot be reached: %s
a container and a shell of su or sudo have no session of their own; log in as this user, or let
root run "loginctl enable-linger %s" and set XDG_RUNTIME_DIR=/run/user/%d, then repeat the command`, said, userName(), os.Getuid())
		}
	}
	return failure.Newf(failure.Unreachable, "`systemctl --user %s` failed: %s", asked, said)
}

// userName is for a command that somebody may copy.
func userName() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return fmt.Sprint(os.Getuid())
}
