package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	module  = "github.com/toolgate/toolgate"
	website = "https://github.com/toolgate/toolgate"
	about   = "One gateway between MCP clients and everything they can call"
	license = "Apache-2.0"

	// dryVersion is the version of a rehearsal. It is older than every release.
	dryVersion = "0.0.0-dry"
)

// source is what a release is made from.
type source struct {
	root     string
	version  string // without the v
	revision string
	time     time.Time // of the commit; every file of the release has it
}

var semver = regexp.MustCompile(`^v(\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?)$`)

// inspect finds out which version the checkout at root is. A release is the commit of a
// tag, without any change, and the changelog describes it. A rehearsal is anything.
func inspect(ctx context.Context, root string, dry bool) (source, error) {
	s := source{root: root, version: dryVersion}
	commit, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	revision, seconds, _ := strings.Cut(commit, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("the time of the commit %s: %w", revision, err)
	}
	s.revision, s.time = revision, time.Unix(unix, 0).UTC()
	if dry {
		return s, nil
	}

	changed, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return s, err
	}
	if changed != "" {
		return s, fmt.Errorf("the checkout differs from its commit: commit or remove this first:\n%s", changed)
	}
	tag, err := git(ctx, root, "describe", "--exact-match", "--tags", "--match", "v*")
	if err != nil {
		return s, fmt.Errorf("the commit %s has no tag: make one with `git tag -s v1.2.3`, or rehearse with -dry", revision[:12])
	}
	m := semver.FindStringSubmatch(tag)
	if m == nil {
		return s, fmt.Errorf("the tag %s is no version such as v1.2.3", tag)
	}
	s.version = m[1]
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return s, err
	}
	if !bytes.Contains(changes, []byte("\n## ["+s.version+"]")) {
		return s, fmt.Errorf("CHANGELOG.md has no section %q: write it before the tag", "## ["+s.version+"]")
	}
	return s, nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := run(ctx, dir, nil, "git", args...)
	return strings.TrimSpace(out), err
}

// run runs a program in a folder and returns its output. An error has what the program
// said. The context bounds it.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	return output(cmd)
}

// runWith is run with something to read, for programs that only say yes or no.
func runWith(ctx context.Context, in io.Reader, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = in
	_, err := output(cmd)
	return err
}

func output(cmd *exec.Cmd) (string, error) {
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not installed, and the release needs it", cmd.Args[0])
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(append(stdout.Bytes(), stderr.Bytes()...)))
	}
	return stdout.String(), nil
}

// linked tells whether a checkout is a linked worktree of git. The go command records no
// commit there, so that a program would differ from one that is built in a clone.
func linked(root string) bool {
	info, err := os.Lstat(filepath.Join(root, ".git"))
	return err == nil && !info.IsDir()
}

// copySource copies a checkout to a folder, with its commit and with what is changed in
// it, so that a build there has another path and nothing else that is different.
func copySource(ctx context.Context, s source, to string) (source, error) {
	if _, err := git(ctx, s.root, "clone", "--quiet", "--shared", "--no-checkout", s.root, to); err != nil {
		return s, err
	}
	if _, err := git(ctx, to, "reset", "--quiet", s.revision); err != nil {
		return s, err
	}
	list, err := run(ctx, s.root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return s, err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		err := copyFile(filepath.Join(s.root, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that was deleted is no part of the checkout
			return s, err
		}
	}
	s.root = to
	return s, nil
}

func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}
