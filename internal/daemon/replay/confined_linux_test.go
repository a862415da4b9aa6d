package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/opa"
)

// The process has none of the gateway's environment, and may neither gain rights nor use
// more than its bounds. It reaches no network and opens no file.
func TestProcessIsConfined(t *testing.T) {
	t.Setenv("TOOLGATE_SECRET_OF_THE_TEST", "secret")
	c, err := start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	// It has an answer when it runs: before that, what loads a program has files open.
	policy := &policyMessage{Decision: "data.toolgate.decision", PolicyInput: 1 << 10, Files: []opa.File{{Name: "policy.rego", Data: []byte("package toolgate\n\ndecision := true\n")}}}
	var ready readyMessage
	if err := errors.Join(c.send(json.NewEncoder(c.in), policy), c.receive(&ready)); err != nil || len(ready.Problems) > 0 {
		t.Fatalf("%v, %v", ready, err)
	}
	for _, layer := range needed {
		if !c.process.Layers.Has(layer) {
			t.Errorf("it runs without %s", layer)
		}
	}
	of := func(name string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.process.Cmd.Process.Pid, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if env := strings.TrimRight(of("environ"), "\x00"); !strings.HasPrefix(env, "PATH=") || strings.Contains(env, "\x00") {
		t.Errorf("its environment: %q", env)
	}
	for _, line := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapBnd:"} {
		if status := of("status"); !strings.Contains(status, line) {
			t.Errorf("no %q in\n%s", line, status)
		}
	}
	for _, limit := range []string{"Max data size             " + fmt.Sprint(memory), "Max cpu time              11", "Max file size             1 ", "Max open files            32", "Max core file size        0"} {
		if limits := of("limits"); !strings.Contains(limits, limit) {
			t.Errorf("no %q in\n%s", limit, limits)
		}
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.process.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", c.process.Cmd.Process.Pid, fd.Name()))
		if err == nil && !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "anon_inode:[event") {
			t.Errorf("it has %s open", to)
		}
	}
	if c.process.Layers.Has("namespaces") {
		for _, space := range []string{"net", "pid", "mnt", "ipc", "user"} {
			theirs, err1 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.process.Cmd.Process.Pid, space))
			ours, err2 := os.Readlink("/proc/self/ns/" + space)
			if err1 != nil || err2 != nil || theirs == ours {
				t.Errorf("namespace %s: %q and %q, %v %v", space, theirs, ours, err1, err2)
			}
		}
	}
}
