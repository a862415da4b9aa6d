//go:build rehearsal

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// settings of the gateways that are started here. The zone is one that the program has to
// bring along, because the image has no other.
const gatewayFile = `mcpServers: {}
toolgate:
  listen: { http: "%s", metrics: "", console: "" }
  budgets: [{ name: day, per: subject, limit: 5, window: day, zone: America/St_Johns }]
`

// TestRehearsal makes a release for this machine and starts everything that is in it.
func TestRehearsal(t *testing.T) {
	if host.os != "linux" {
		t.Fatal("packages and images are for Linux: run it there")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "release")
	if err := command(t.Context(), []string{"-dry", "-root", root, "-out", out, "-platforms", host.String()}, t.Output()); err != nil {
		t.Fatal(err)
	}
	version := fmt.Sprintf("toolgate %s %s ", dryVersion, strings.TrimSpace(must(t, root, "git", "rev-parse", "HEAD")))
	runs := func(t *testing.T, program string) {
		t.Helper()
		if got := must(t, ".", program, "--version"); !strings.HasPrefix(got, version) {
			t.Errorf("%s says %q, want %q", program, got, version)
		}
	}
	t.Run("README.md", func(t *testing.T) { typed(t, root, out, "README.md", version) })
	t.Run("install.md", func(t *testing.T) { typed(t, root, out, "docs/install.md", version) })
	t.Run("deb", func(t *testing.T) {
		file, dir := filepath.Join(out, host.name()+".deb"), t.TempDir()
		must(t, dir, "dpkg-deb", "--extract", file, dir)
		checkPackage(t, dir)
		runs(t, filepath.Join(dir, "usr/bin/toolgate"))
		if field := must(t, dir, "dpkg-deb", "--show", "--showformat=${Package} ${Version} ${Architecture}", file); field != "toolgate 0.0.0~dry "+host.arch {
			t.Errorf("the package is %q", field)
		}
	})
	t.Run("rpm", func(t *testing.T) {
		dir := t.TempDir()
		must(t, dir, "sh", "-c", `rpm2cpio "$1" | cpio --extract --make-directories --no-absolute-filenames --quiet`, "sh", filepath.Join(out, host.name()+".rpm"))
		checkPackage(t, dir)
		runs(t, filepath.Join(dir, "usr/bin/toolgate"))
	})
	t.Run("image", func(t *testing.T) { startImage(t, filepath.Join(out, imageFile), version) })
}

// checkPackage looks for what comes with the program, and has systemd read the unit.
func checkPackage(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{
		"usr/share/man/man1/toolgate.1.gz", "usr/share/bash-completion/completions/toolgate", "usr/share/doc/toolgate/copyright",
		"usr/share/doc/toolgate/THIRD-PARTY-LICENSES.txt",
	} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "usr/lib/systemd/system/toolgate.service"))
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "toolgate.service")
	write(t, unit, strings.ReplaceAll(string(text), "=/usr/bin/toolgate", "="+filepath.Join(dir, "usr/bin/toolgate")))
	must(t, dir, "systemd-analyze", "verify", "--man=no", unit)
}

var block = regexp.MustCompile("(?s)<!-- release: ([a-z-]+) -->\n```sh\n(.*?)```")

// typed runs the commands of a document as they are, in a home folder with an odd name. The
// only thing that is not real is where the release comes from. Those about the service
// have a systemd of their own.
func typed(t *testing.T, root, release, document, version string) {
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatalf("%s has no command to be run", document)
	}
	home := filepath.Join(t.TempDir(), "odd home; 100%h é")
	downloads := filepath.Join(home, "downloads")
	if err := os.MkdirAll(downloads, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "toolgate.yaml"), fmt.Sprintf(gatewayFile, "127.0.0.1:0"))
	stand, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	start := func(script string) (string, error) {
		args := []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", filepath.Join(stand, "session.sh"), "sh", "-c", script}
		if os.Getuid() != 0 {
			args = append([]string{"--map-root-user"}, args...)
		}
		cmd := exec.CommandContext(ctx, "unshare", args...)
		cmd.Dir = downloads
		cmd.Env = []string{
			"HOME=" + home, "RELEASE=" + release, "TOOLGATE_KEYRING=file",
			"PATH=" + stand + ":" + home + "/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		}
		return output(cmd)
	}
	script := "set -eux\n"
	for _, b := range blocks {
		script += "# " + b[1] + "\n" + b[2]
	}
	said, err := start(script)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said, version) {
		t.Errorf("%s: the program that was installed is not the one of the release:\n%s", document, said)
	}
	t.Log(said)
}

// startImage unpacks the image as a runtime does and starts it with its own settings: its
// user, its variables, its folder, and nothing that it may write to but its volume and /tmp.
func startImage(t *testing.T, file, version string) {
	dir := t.TempDir()
	layout, bundle := filepath.Join(dir, "layout"), filepath.Join(dir, "bundle")
	for _, d := range []string{layout, filepath.Join(dir, "state"), filepath.Join(dir, "etc")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	must(t, layout, "tar", "-xf", file)
	must(t, dir, "umoci", "unpack", "--rootless", "--image", layout+":"+dryVersion, bundle)
	var config struct {
		Process struct {
			User struct{ UID, GID int }
			Args []string
			Env  []string
			Cwd  string
		}
	}
	data, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := config.Process
	address := freeAddress(t)
	write(t, filepath.Join(dir, "etc", "toolgate.yaml"), fmt.Sprintf(gatewayFile, address))
	args := []string{
		"--unshare-user", "--unshare-pid", "--die-with-parent", "--uid", fmt.Sprint(p.User.UID), "--gid", fmt.Sprint(p.User.GID), "--cap-drop", "ALL",
		"--ro-bind", filepath.Join(bundle, "rootfs"), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
		"--bind", filepath.Join(dir, "state"), "/var/lib/toolgate", "--ro-bind", filepath.Join(dir, "etc"), "/etc/toolgate", "--chdir", p.Cwd, "--clearenv",
	}
	for _, v := range p.Env {
		name, value, _ := strings.Cut(v, "=")
		args = append(args, "--setenv", name, value)
	}
	contained := func(ctx context.Context, command ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "bwrap", append(append(args, "--"), command...)...)
	}
	if got, err := output(contained(t.Context(), p.Args[0], "--version")); err != nil || !strings.HasPrefix(got, version) {
		t.Errorf("the image says %q, %v", got, err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	gateway := contained(ctx, p.Args...)
	ended := make(chan error, 1)
	go func() { // ends with the gateway, which ends with the test
		said, err := output(gateway)
		ended <- errors.Join(err, errors.New(said))
	}()
	healthy := func() bool {
		_, err := output(contained(ctx, p.Args[0], "healthcheck", "http://"+address))
		return err == nil
	}
	for deadline := time.Now().Add(30 * time.Second); !healthy(); {
		select {
		case err := <-ended:
			t.Fatalf("the gateway of the image has ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the gateway of the image is not healthy after 30 s")
		}
	}
	stop()
	_ = <-ended // it was killed
}

// freeAddress returns one that nobody listens on.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
