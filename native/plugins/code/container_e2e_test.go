//go:build e2e

package code_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/native/plugins/code"
)

// A container that cannot be removed is tried again, a bounded number of times, and the
// operator is told.
func TestContainerStays(t *testing.T) {
	for name, tc := range map[string]struct {
		fails int
		says  string
		want  []string // told, in order
		tries int
	}{
		"removed at once":  {tries: 1},
		"gone already":     {says: "Error: No such container: x", tries: 1},
		"at the third try": {fails: 2, want: []string{"cannot be removed: the container is busy; it is tried again", "is removed"}, tries: 3},
		"it stays":         {fails: 99, want: []string{"is tried again", "stays: the container is busy; remove it with `"}, tries: 7},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan string, 9)
			code.TellRemovals(t, func(line string) { told <- line })
			dir := folder(t)
			self, err := os.Executable()
			must(t, err)
			runtime := filepath.Join(dir, "fake-runtime")
			copyFile(t, self, runtime)
			must(t, os.WriteFile(filepath.Join(dir, "busy"), []byte(strings.Repeat("x", tc.fails)), 0o600))
			if tc.says != "" {
				must(t, os.WriteFile(filepath.Join(dir, "says"), []byte(tc.says), 0o600))
			}
			tool := open(t, code.Config{Timeout: time.Second, Container: code.Container{Runtime: runtime, Image: "python:3"}})["execute"]
			if out := run(t, tool, "# hang"); !out.TimedOut {
				t.Errorf("%+v", out)
			}
			for _, want := range tc.want {
				if line := <-told; !strings.Contains(line, want) || !strings.Contains(line, "the container toolgate-") {
					t.Errorf("told %q, want %q", line, want)
				}
			}
			data, err := os.ReadFile(filepath.Join(dir, "asked"))
			must(t, err)
			if n := strings.Count(string(data), `"--force"`); n != tc.tries {
				t.Errorf("%d tries, want %d", n, tc.tries)
			}
			if len(told) > 0 {
				t.Errorf("told %q, too", <-told)
			}
		})
	}
}

func TestContainer(t *testing.T) {
	dir := folder(t)
	self, err := os.Executable()
	must(t, err)
	runtime := filepath.Join(dir, "fake-runtime")
	copyFile(t, self, runtime)
	t.Setenv("CODE_CANARY", "canary")
	tool := open(t, code.Config{
		Timeout: 2 * time.Second, Limits: code.Limits{Memory: 64 << 20, CPU: 5 * time.Second, Processes: 9},
		Container: code.Container{Runtime: runtime, Image: "python:3", Args: []string{"--cpus=1"}},
	})["execute"]
	program := "print('--privileged $(id)')"
	out := run(t, tool, program)
	if out.ExitCode != 7 || out.Stdout != "from the container\n" {
		t.Errorf("%+v", out)
	}
	if out := run(t, tool, "# hang"); !out.TimedOut {
		t.Errorf("%+v", out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "asked"))
	must(t, err)
	if strings.Contains(string(data), "canary") {
		t.Errorf("the runtime has a variable that it was not given: %s", data)
	}
	var all []asked
	for line := range strings.Lines(string(data)) {
		var a asked
		must(t, json.Unmarshal([]byte(line), &a))
		all = append(all, a)
	}
	if len(all) != 3 {
		t.Fatalf("%d starts: %s", len(all), data)
	}
	name := func(a asked) string {
		for _, arg := range a.Args {
			if n, ok := strings.CutPrefix(arg, "--name="); ok {
				return n
			}
		}
		return ""
	}
	want := []string{
		"run", "--rm", "--interactive", "--name=" + name(all[0]), "--pull=never",
		"--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65534:65534",
		"--memory=67108864", "--memory-swap=67108864", "--pids-limit=9", "--ulimit=cpu=5:5", "--ulimit=nofile=256:256", "--ulimit=core=0:0",
		"--tmpfs=/tmp:rw,nosuid,nodev,noexec,size=67108864", "--workdir=/tmp", "--env=HOME=/tmp", "--log-driver=none", "--entrypoint=python3",
		"--cpus=1", "python:3", "-I", "-S", "-B", "-X", "utf8", "-",
	}
	if diff := cmp.Diff(want, all[0].Args); diff != "" || all[0].Stdin != program || len(name(all[0])) < 20 {
		t.Errorf("%s, %q", diff, all[0].Stdin)
	}
	if name(all[0]) == name(all[1]) {
		t.Error("two containers have one name")
	}
	if diff := cmp.Diff([]string{"rm", "--force", name(all[1])}, all[2].Args); diff != "" {
		t.Error(diff)
	}
}
