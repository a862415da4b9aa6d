package code_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/plugins/code"
)

type status struct {
	Repository, Branch, Commit string
	Changes                    []struct{ Path, Status, From string }
	Cut                        bool
}

func (s *status) lines() []string {
	var out []string
	for _, c := range s.Changes {
		out = append(out, strings.TrimSpace(c.Status+" "+c.Path+" "+c.From))
	}
	return out
}

// git runs git as its user would.
func git(t *testing.T, in string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, "git"), append([]string{"-C", in, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=" + in}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// example makes a repository with changes of each kind.
func example(t *testing.T, in string) {
	t.Helper()
	must(t, os.MkdirAll(in, 0o755))
	git(t, in, "init", "-q", "-b", "main")
	for _, name := range []string{"same", "changed", "gone", "old name", "sub/changed"} {
		write(t, filepath.Join(in, name), name+" with a text that is long enough to be recognised\n")
	}
	git(t, in, "add", ".")
	git(t, in, "commit", "-q", "-m", "first")
	write(t, filepath.Join(in, "changed"), "another")
	write(t, filepath.Join(in, "sub", "changed"), "another")
	must(t, os.Remove(filepath.Join(in, "gone")))
	git(t, in, "mv", "old name", "new name")
	write(t, filepath.Join(in, "not added"), "")
	write(t, filepath.Join(in, "ignored"), "")
	write(t, filepath.Join(in, ".git", "info", "exclude"), "ignored\n")
}

func TestGitStatus(t *testing.T) {
	dir := folder(t)
	repo := filepath.Join(dir, "repo")
	example(t, repo)
	tool := open(t, code.Config{Roots: []string{dir}, Git: program(t, "git")})["git_status"]
	index, err := os.ReadFile(filepath.Join(repo, ".git", "index"))
	must(t, err)
	for _, pack := range []bool{false, true} {
		if pack {
			git(t, repo, "pack-refs", "--all")
			if index, err = os.ReadFile(filepath.Join(repo, ".git", "index")); err != nil {
				t.Fatal(err)
			}
		}
		var got status
		must(t, call(t, tool, map[string]any{"path": repo}, &got))
		want := []string{".M changed", ".D gone", "R. new name old name", ".M sub/changed", "?? not added"}
		if diff := cmp.Diff(want, got.lines()); diff != "" || got.Branch != "main" || len(got.Commit) != 40 || got.Repository != repo || got.Cut {
			t.Errorf("%+v: %s", got, diff)
		}
		must(t, call(t, tool, map[string]any{"path": filepath.Join(repo, "sub")}, &got))
		if diff := cmp.Diff([]string{".M sub/changed"}, got.lines()); diff != "" {
			t.Error(diff)
		}
	}
	if now, _ := os.ReadFile(filepath.Join(repo, ".git", "index")); string(now) != string(index) {
		t.Error("the index was written")
	}
	git(t, repo, "checkout", "-q", "--detach")
	var got status
	must(t, call(t, tool, map[string]any{"path": repo}, &got))
	if got.Branch != "" || len(got.Commit) != 40 {
		t.Errorf("%+v", got)
	}
	empty := filepath.Join(dir, "empty")
	must(t, os.Mkdir(empty, 0o755))
	problem(t, "no repository", call(t, tool, map[string]any{"path": empty}, nil), "in no git repository")
	git(t, empty, "init", "-q", "-b", "späte/zweige")
	must(t, call(t, tool, map[string]any{"path": empty}, &got))
	if got.Branch != "späte/zweige" || got.Commit != "" || len(got.Changes) != 0 {
		t.Errorf("%+v", got)
	}
	git(t, repo, "worktree", "add", "-q", filepath.Join(dir, "linked"))
	problem(t, "a linked worktree", call(t, tool, map[string]any{"path": filepath.Join(dir, "linked")}, nil), "not followed")
	problem(t, "a file", call(t, tool, map[string]any{"path": filepath.Join(repo, "same")}, nil), "a folder is needed")
	problem(t, "elsewhere", call(t, tool, map[string]any{"path": "/"}, nil), "outside of what")
	problem(t, "an option", call(t, tool, map[string]any{"path": "--exec-path=/tmp"}, nil), "not absolute")
	problem(t, "no git", call(t, open(t, code.Config{Roots: []string{dir}})["git_status"], map[string]any{"path": repo}, nil), "no git")
}

// Whatever a repository has in its configuration, hooks and attributes, nothing of it
// is run: each would leave a file. That the traps are good is shown by git itself.
func TestGitHostile(t *testing.T) {
	for _, mode := range []sandbox.Mode{sandbox.Auto, sandbox.Off} {
		dir := folder(t)
		repo, loot := filepath.Join(dir, "repo"), filepath.Join(dir, "loot")
		must(t, os.Mkdir(loot, 0o777))
		example(t, repo)
		trap := filepath.Join(dir, "repo", "trap.sh")
		write(t, trap, fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" > %s/$(date +%%s%%N)\ncat\n", loot))
		must(t, os.Chmod(trap, 0o755))
		write(t, filepath.Join(repo, "evil.cfg"), fmt.Sprintf("[core]\n\tfsmonitor = %s\n", trap))
		write(t, filepath.Join(repo, ".git", "config"), fmt.Sprintf(`[core]
	repositoryformatversion = 0
	fsmonitor = %[1]s
	hooksPath = %[2]s
	pager = %[1]s
	sshCommand = %[1]s
	editor = %[1]s
	attributesFile = %[2]s/attributes
	excludesFile = /etc/passwd
	worktree = /etc
	alternateRefsCommand = %[1]s
[filter "evil"]
	clean = %[1]s
	smudge = %[1]s
	process = %[1]s
	required = true
[diff]
	external = %[1]s
[diff "evil"]
	textconv = %[1]s
	command = %[1]s
[alias]
	status = !%[1]s
[include]
	path = %[2]s/evil.cfg
[gpg]
	program = %[1]s
[credential]
	helper = !%[1]s
[status]
	submoduleSummary = true
`, trap, repo))
		for _, name := range []string{".gitattributes", ".git/info/attributes"} {
			write(t, filepath.Join(repo, name), "* filter=evil diff=evil\n")
		}
		for _, name := range []string{"post-index-change", "fsmonitor-watchman", "pre-commit"} {
			write(t, filepath.Join(repo, ".git", "hooks", name), "#!/bin/sh\n"+trap+"\n")
			must(t, os.Chmod(filepath.Join(repo, ".git", "hooks", name), 0o755))
		}
		// As long as before, but of another time: git has to look at what it holds.
		write(t, filepath.Join(repo, "same"), "SAME with a text that is long enough to be recognised\n")

		tool := open(t, code.Config{Roots: []string{dir}, Git: program(t, "git"), Sandbox: mode})["git_status"]
		var got status
		must(t, call(t, tool, map[string]any{"path": repo}, &got))
		if entries, err := os.ReadDir(loot); err != nil || len(entries) > 0 {
			t.Errorf("%s: %d programs were run, %v", mode, len(entries), err)
		}
		if !strings.Contains(strings.Join(got.lines(), "\n"), ".M same") {
			t.Errorf("%+v", got)
		}
		cmd := exec.CommandContext(t.Context(), program(t, "git"), "-C", repo, "-c", "core.worktree="+repo, "status")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		_ = cmd.Run()
		if entries, _ := os.ReadDir(loot); len(entries) == 0 {
			t.Error("the traps are none")
		}
	}
}

// What HEAD may not name is not looked for.
func TestGitHead(t *testing.T) {
	dir := folder(t)
	repo := filepath.Join(dir, "repo")
	example(t, repo)
	write(t, filepath.Join(dir, "secret"), strings.Repeat("a", 40))
	tool := open(t, code.Config{Roots: []string{repo}, Git: program(t, "git")})["git_status"]
	for _, head := range []string{
		"ref: refs/heads/../../../secret", "ref: ../../secret", "ref: /etc/passwd", "ref: refs/heads/", "ref: refs/heads/a//b",
		"ref: refs/heads/.invalid", "ref: refs/heads/a\x01", "canary", "", "ref:refs/heads/main", strings.Repeat("x", 5000), "ref: config",
	} {
		write(t, filepath.Join(repo, ".git", "HEAD"), head+"\n")
		if err := call(t, tool, map[string]any{"path": repo}, &status{}); head != "" {
			problem(t, head[:min(len(head), 40)], err, "")
		}
	}
	must(t, os.Remove(filepath.Join(repo, ".git", "HEAD")))
	must(t, os.Symlink(filepath.Join(dir, "secret"), filepath.Join(repo, ".git", "HEAD")))
	problem(t, "a link", call(t, tool, map[string]any{"path": repo}, nil), "link")
}
