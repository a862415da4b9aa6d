//go:build !windows

package storetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// The signals of the server: crash ends it at once, without a checkpoint (pg_ctl stop
// -m immediate).
const (
	crash = syscall.SIGQUIT
	kill  = syscall.SIGKILL
)

// confine makes cmd run as a user that the server accepts.
func confine(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	uid, gid, err := other()
	if err == nil && uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return err
}

// hand gives a folder to the user of the server.
func hand(folder string) error {
	uid, gid, err := other()
	if err != nil || uid == 0 {
		return err
	}
	return os.Chown(folder, int(uid), int(gid))
}

// other returns the user for the server if we are root, as which it refuses to run;
// else zero.
func other() (uid, gid uint32, err error) {
	if os.Geteuid() != 0 {
		return 0, 0, nil
	}
	var tried error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			tried = errors.Join(tried, err)
			continue
		}
		id, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return 0, 0, err
		}
		group, err := strconv.ParseUint(u.Gid, 10, 32)
		return uint32(id), uint32(group), err
	}
	return 0, 0, fmt.Errorf("PostgreSQL does not run as root, and there is no user for it: %w", tried)
}
