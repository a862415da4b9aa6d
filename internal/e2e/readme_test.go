//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// commandTimeout bounds one command of the README that ends by itself, and the
// time until one that does not prints its URL. The first compiles toolgate.
const commandTimeout = 2 * time.Minute

// block is one fenced sh block of a document that is marked to be run.
type block struct {
	Name     string
	Commands []string // continued lines joined, comments and empty lines left out
}

var (
	testMark = regexp.MustCompile(`^<!-- test: ([a-z0-9-]+) -->$`)
	shFence  = "```sh"
)

// testedBlocks returns the marked blocks of a Markdown document, in order, and
// the marks that no sh block follows.
func testedBlocks(markdown string) (blocks []block, loose []string) {
	lines := strings.Split(markdown, "\n")
	for i := 0; i < len(lines); i++ {
		m := testMark.FindStringSubmatch(strings.TrimSpace(lines[i]))
		if m == nil {
			continue
		}
		j := i + 1
		for j < len(lines) && strings.TrimSpace(lines[j]) == "" {
			j++
		}
		if j == len(lines) || strings.TrimSpace(lines[j]) != shFence {
			loose = append(loose, m[1])
			continue
		}
		b := block{Name: m[1]}
		command := ""
		for j++; j < len(lines) && strings.TrimSpace(lines[j]) != "```"; j++ {
			line := strings.TrimSpace(lines[j])
			if command == "" && (line == "" || strings.HasPrefix(line, "#")) {
				continue
			}
			if rest, more := strings.CutSuffix(line, `\`); more {
				command += rest
				continue
			}
			b.Commands = append(b.Commands, command+line)
			command = ""
		}
		blocks = append(blocks, b)
		i = j
	}
	return blocks, loose
}

func TestTestedBlocks(t *testing.T) {
	blocks, loose := testedBlocks(strings.Join([]string{
		"# Title", "```sh", "not marked", "```",
		"<!-- test: one -->", "```sh", "# a comment", "first --flag", "", "second \\", "  --more", "```",
		"<!-- test: two -->", "", "```sh", "third # with a comment", "```",
		"<!-- test: lost -->", "text",
		"<!-- test: other -->", "```console", "$ output", "```",
		"  <!-- test: in-list -->", "  ```sh", "  fourth", "  ```",
		"<!-- test: at-end -->",
	}, "\n"))
	want := []block{
		{"one", []string{"first --flag", "second --more"}},
		{"two", []string{"third # with a comment"}},
		{"in-list", []string{"fourth"}},
	}
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lost", "other", "at-end"}, loose); diff != "" {
		t.Errorf("marks without a block (-want +got):\n%s", diff)
	}
}

// TestReadme runs the marked commands of the README in their order, in the
// repository, with a home folder in which an editor has a server. A command that
// prints a URL serves: it keeps running beside those that follow, until another
// one serves or the README ends.
func TestReadme(t *testing.T) {
	built(t, lab.toolgate)
	text, err := os.ReadFile(filepath.Join(lab.root, "README.md"))
	if err != nil {
		t.Fatalf("reading the README: %v", err)
	}
	blocks, loose := testedBlocks(string(text))
	for _, name := range loose {
		t.Errorf("the mark %q is not followed by a sh block", name)
	}
	if len(blocks) == 0 {
		t.Fatal("the README marks no command to be tested")
	}
	for _, untested := range unmarked(string(text)) {
		t.Errorf("this sh block of the README is not marked, so nothing runs it:\n%s", untested)
	}
	dir, err := os.MkdirTemp("", "tg") //nolint:usetesting // short enough for the path of a socket
	if err != nil {
		t.Fatalf("making a folder: %v", err)
	}
	t.Cleanup(func() {
		noLeftovers(t, dir)
		os.RemoveAll(dir)
	})
	env := append(privateEnv(t, dir), "TOOLGATE_LISTEN_HTTP=127.0.0.1:0")
	env = append(env, goCaches(t)...)
	editorFile(t, dir)
	if lab.node.err != nil {
		t.Logf("without npm packages: %v", lab.node.err)
	}

	var serving *process
	for _, b := range blocks {
		for _, command := range b.Commands {
			t.Logf("%s: %s", b.Name, command)
			cmd := exec.Command("sh", "-c", command)
			cmd.Dir, cmd.Env = lab.root, env
			p := start(t, command, cmd)
			if waitServing(t, p) {
				if serving != nil {
					serving.stop(t)
				}
				serving = p
				continue
			}
			if p.err != nil {
				t.Errorf("%s: %s: %v\nstdout:\n%s\nstderr:\n%s", b.Name, command, p.err, p.stdout.tail(30), p.stderr.tail(30))
			}
		}
	}
}

// waitServing waits until p ends, false, or prints its URL, true.
func waitServing(t *testing.T, p *process) bool {
	t.Helper()
	deadline := time.After(commandTimeout)
	for {
		p.stdout.mu.Lock()
		grown := p.stdout.grown
		p.stdout.mu.Unlock()
		select {
		case <-p.done:
			return false
		default:
		}
		if urlLine.MatchString(p.stdout.tail(keptLines)) {
			// It may also have printed the URL on its way out.
			select {
			case <-p.done:
				return false
			case <-time.After(500 * time.Millisecond):
				return true
			}
		}
		select {
		case <-grown:
		case <-p.done:
			return false
		case <-deadline:
			t.Fatalf("%s neither ended nor printed a URL within %s", p.name, commandTimeout)
		}
	}
}

// unmarked returns the sh blocks that no mark precedes.
func unmarked(markdown string) []string {
	var all []string
	lines := strings.Split(markdown, "\n")
	before := ""
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if !strings.HasPrefix(line, "```") {
			if line != "" {
				before = line
			}
			continue
		}
		first := i
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
		}
		if line == shFence && !testMark.MatchString(before) {
			all = append(all, strings.Join(lines[first+1:min(i, len(lines))], "\n"))
		}
		before = ""
	}
	return all
}

// editorFile puts the file of a well-known editor into the home folder below
// dir, with one server.
func editorFile(t *testing.T, dir string) {
	t.Helper()
	folder := filepath.Join(dir, "home", ".cursor")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatalf("making the editor's folder: %v", err)
	}
	data, err := json.Marshal(object{"mcpServers": object{
		"fixture": object{"command": built(t, lab.fixture), "args": []string{"-era", "legacy", "-tag", dir}},
	}})
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "mcp.json"), data, 0o600)
	}
	if err != nil {
		t.Fatalf("writing the editor's file: %v", err)
	}
}

// goCaches are the variables by which the Go tool finds its caches in spite of
// another home folder.
func goCaches(t *testing.T) []string {
	t.Helper()
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH"}
	cmd := exec.Command("go", append([]string{"env"}, names...)...)
	cmd.Dir = lab.root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("asking go for its caches: %v", err)
	}
	values := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(values) != len(names) {
		t.Fatalf("go env answers %q", out)
	}
	var env []string
	for i, name := range names {
		env = append(env, name+"="+values[i])
	}
	return env
}
