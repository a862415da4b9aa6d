//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAsAnOrdinaryUser runs what matters again as somebody who is not root: what the
// kernel allows, and what it counts, differs. Where the tests are run by such a user
// they were that already.
func TestAsAnOrdinaryUser(t *testing.T) {
	const nobody = 65534
	if os.Geteuid() != 0 {
		return
	}
	folder, err := os.MkdirTemp("/tmp", "toolgate-user-") //nolint:usetesting // that of the test is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	temp := folder + "/tmp"
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(temp, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	escapes := "EscapesFail|Bombs|"
	if raced {
		escapes = ""
	}
	cmd := exec.CommandContext(ctx, copyTo(t, folder+"/tests"), "-test.v",
		"-test.run=^Test("+escapes+"WhatIsGranted|ForkBomb|NothingIsLeftBehind|EndOf.*|Listen|FullNetwork|Required|Descriptors|PrivateFolderGoes|ConfineItself|Script)$")
	cmd.Dir = temp
	cmd.Env = []string{"TMPDIR=" + temp, "HOME=" + temp, "PATH=" + defaultPath, "GORACE=atexit_sleep_ms=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.WaitDelay = killWait
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, failures(out.String()))
	}
	if !strings.Contains(out.String(), "--- PASS: TestForkBomb") {
		t.Error("the tests did not run")
	}
}

// failures are the lines of a test's output that are not about success.
func failures(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "--- PASS") && !strings.Contains(line, "=== ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
