//go:build e2e && !windows

package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/built"
	"github.com/toolgate/toolgate/internal/raced"
	"github.com/toolgate/toolgate/internal/testwait"
)

var rollingFrom = flag.String("rolling-from", "", "commit whose program TestRolling begins and ends with; without one all gateways have the same")

// roll takes a gateway out of the load balancer, tells it to end, and starts it again.
func (f *fleet) roll(t *testing.T, i int) {
	t.Helper()
	f.mu.Lock()
	f.at[i] = ""
	f.mu.Unlock()
	testwait.Until(t, patience, "the load balancer has left the gateway", func() bool { return f.count(i, 0) == 0 })
	if code := f.all[i].stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("gateway %d ends with %d", i, code)
	}
	p, url := f.homes[i].up(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i], f.at[i] = p, strings.TrimPrefix(url, "http://")
}

// Gateways are taken out of the load balancer, drained and started anew, one after the other.
// Every call is answered. With -rolling-from each gateway becomes one of this version, and then
// one of the earlier commit again.
func TestRolling(t *testing.T) {
	if *rollingFrom == "" {
		rolled(t, "", make([]string, raced.Times(2, 1))...)
		return
	}
	old := commitProgram(t, *rollingFrom)
	rolled(t, old, program, old)
}

// A version whose store has one step more is rolled out, and every call is answered: gateways of the
// earlier one go on beside it. They do not start again, and say why.
func TestRollingOverAMigration(t *testing.T) {
	f := rolled(t, "", nextSchema(t))
	if code := f.all[0].stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	h := f.homes[0]
	h.serves = ""
	p := h.start(t, "up", h.file)
	p.says(t, p.err, `written by a newer toolgate`)
	if code := p.wait(t); code == 0 {
		t.Error("a gateway of the earlier version starts")
	}
}

// nextSchema builds the program with one more migration.
func nextSchema(t *testing.T) (program string) {
	t.Helper()
	of, err := filepath.Abs("../../../internal/store/migrations")
	if err != nil {
		t.Fatal(err)
	}
	dir, replaced := t.TempDir(), map[string]string{}
	for _, dialect := range []string{"postgres", "sqlite"} {
		there, err := filepath.Glob(filepath.Join(of, dialect, "*.sql"))
		if err != nil || len(there) == 0 {
			t.Fatalf("no migrations of %s: %v", dialect, err)
		}
		step := filepath.Join(dir, dialect+".sql")
		if err := os.WriteFile(step, []byte("CREATE TABLE of_the_next_version (id INTEGER);\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(of, dialect, fmt.Sprintf("%04d_next.sql", len(there)+1))] = step
	}
	return overlaid(t, dir, replaced)
}

// overlaid builds the program with files in place of others, in a folder.
func overlaid(t *testing.T, dir string, replaced map[string]string) (program string) {
	t.Helper()
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "toolgate")
	text, _ := json.Marshal(map[string]any{"Replace": replaced}) // a map of strings
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := built.Program(context.WithoutCancel(t.Context()), program, "github.com/toolgate/toolgate/cmd/toolgate", "-overlay", overlay); err != nil {
		t.Fatal(err)
	}
	return program
}

// rolled starts a fleet of the first program, and rolls it to each of the others.
func rolled(t *testing.T, first string, then ...string) *fleet {
	t.Helper()
	tool, url := newOnce(t)
	f := newFleet(t, postgres.URL(t), servers{"api": {"type": "http", "url": url}}, map[string]any{
		"servers": map[string]any{"api": map[string]any{"concurrency": 64}},
	}, func(_ int, h *home) { h.serves = first })
	n := 0
	o := f.underLoad(t, 3*len(then), func() {
		f.homes[n%3].serves = then[n/3]
		f.roll(t, n%3)
		n++
	})
	tool.mu.Lock()
	defer tool.mu.Unlock()
	if o.count["answered"] != len(o.of) || len(tool.ran) != len(o.of) {
		t.Errorf("%v of %d calls, and %d have run", o.count, len(o.of), len(tool.ran))
	}
	t.Logf("%v", o.count)
	return f
}

// commitProgram builds the program of a commit.
func commitProgram(t *testing.T, commit string) (program string) {
	t.Helper()
	dir := t.TempDir()
	ctx := context.WithoutCancel(t.Context()) // a build that is cut off leaves files behind
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Fatalf("the program of %s is built from a clone, and this is none: %v", commit, err)
	}
	top := strings.TrimSpace(string(root))
	if exec.CommandContext(ctx, "git", "-C", top, "cat-file", "-e", commit+"^{commit}").Run() != nil {
		t.Fatalf("this clone has no commit %s: a shallow one needs git fetch --deepen 1, or more", commit)
	}
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	run("git", "-C", top, "archive", "--output", filepath.Join(dir, "source.tar"), commit)
	run("tar", "-xf", filepath.Join(dir, "source.tar"), "-C", source)
	program = filepath.Join(dir, "toolgate")
	run("go", "-C", source, "build", "-o", program, "./cmd/toolgate")
	return program
}
