//go:build !windows

package audit_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// childOf names the test that a child of the test process runs.
const childOf = "TOOLGATE_AUDIT_TEST"

// alone runs a test in a process of its own, without root's permissions, where limits
// affect nothing else. It returns true in that process; in the other one the test has
// finished when it returns.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childOf) == t.Name() {
		return true
	}
	dir, err := os.MkdirTemp("", "audit") //nolint:usetesting // another user has to get there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	binary := dir + "/audit.test"
	b, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(binary, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "2m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), childOf+"="+t.Name(), "TMPDIR="+dir)
	if os.Getuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("alone: %v\n%s", err, out)
	}
	return false
}
