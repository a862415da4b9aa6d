package code

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/toolapi"
)

const (
	// gitTimeout bounds a run of git.
	gitTimeout = 30 * time.Second
	// gitKeep bounds how much of git's output is read.
	gitKeep = 4 << 20
	// mostChanges bounds the returned changes.
	mostChanges = 2000
	// largestIndex bounds the size of a repository's index.
	largestIndex = 256 << 20
	// largestRefs bounds the size of a repository's packed references.
	largestRefs = 16 << 20
)

// repository is the place of a repository.
type repository struct {
	folder string // real
	inner  string // its .git
}

func (s *service) gitStatus(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
	var path string
	if err := toolapi.Read(call.Arguments, toolapi.Fields{"path": &path}); err != nil {
		return toolapi.Result{}, err
	}
	if s.config.Git == "" {
		return toolapi.Result{}, toolapi.Problemf("There is no git on this machine.")
	}
	at, folder, err := s.tree.Path(path)
	if err != nil {
		return toolapi.Result{}, err
	}
	if !folder {
		return toolapi.Result{}, toolapi.Problemf("%q is a file; a folder is needed.", path)
	}
	repo, err := s.findRepository(path)
	if err != nil {
		return toolapi.Result{}, err
	}
	back, err := s.slot(ctx)
	if err != nil {
		return toolapi.Result{}, err
	}
	defer back()
	out, err := s.status(ctx, repo, at)
	if err != nil {
		return toolapi.Result{}, notRun("git", err)
	}
	return toolapi.Answer(out)
}

// findRepository finds the repository that contains a folder, within the roots.
func (s *service) findRepository(path string) (repository, error) {
	for dir := path; ; dir = filepath.Dir(dir) {
		top, _, err := s.tree.Path(dir)
		if err != nil || dir == filepath.Dir(dir) {
			return repository{}, toolapi.Problemf("%q is in no git repository, as far as it is allowed to look.", path)
		}
		inner, folder, err := s.tree.Path(filepath.Join(dir, ".git"))
		if err != nil {
			continue
		}
		if !folder {
			return repository{}, toolapi.Problemf("%q is a submodule or a linked worktree, whose repository is elsewhere; that is not followed.", dir)
		}
		return repository{folder: top, inner: inner}, nil
	}
}

// status runs git on an imitation of the repository's .git folder, without
// configuration, hooks and attributes, because git would run the filters, monitors and
// helpers that these name. Only the objects and the files are the repository's own,
// and they are read-only.
func (s *service) status(ctx context.Context, repo repository, at string) (st *gitState, err error) {
	made, err := os.MkdirTemp("", "toolgate-git-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	if made, err = filepath.EvalSymlinks(made); err != nil {
		return nil, err
	}
	if err := s.imitate(repo, made); err != nil {
		return nil, err
	}
	policy := s.config.policy()
	policy.Temp, policy.Read = true, []string{repo.folder, repo.inner, made}
	rel, err := filepath.Rel(repo.folder, at)
	if err != nil {
		return nil, err
	}
	j := job{policy: policy, timeout: gitTimeout, keep: gitKeep, whole: true, program: sandbox.Program{
		Path: s.config.Git, Dir: repo.folder, Args: []string{
			"--no-optional-locks", "--no-pager", "--literal-pathspecs",
			"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.attributesFile=/dev/null",
			"-c", "core.excludesFile=/dev/null", "-c", "core.untrackedCache=false", "-c", "submodule.recurse=false", "-c", "protocol.allow=never",
			"status", "--porcelain=v2", "-z", "--branch", "--untracked-files=normal", "--ignore-submodules=all", "--", rel,
		},
		Env: []string{
			"PATH=/usr/bin:/bin", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_ATTR_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_ASKPASS=false",
			"GIT_DIR=" + made, "GIT_WORK_TREE=" + repo.folder, "GIT_OBJECT_DIRECTORY=" + filepath.Join(repo.inner, "objects"),
		},
	}}
	out, err := j.run(ctx)
	switch {
	case err != nil:
		return nil, err
	case out.TimedOut:
		return nil, toolapi.Problemf("git did not tell the status within %v; ask for a smaller folder.", gitTimeout)
	case out.ExitCode != 0:
		return nil, toolapi.Problemf("git cannot tell the status: %s", firstLine(out.Stderr))
	}
	return parseStatus(repo.folder, out.Stdout, out.Cut), nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 500)]
}

// isHash tells whether a text names a commit.
func isHash(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// isBranch tells whether a text is the name of a branch that has its own file.
func isBranch(ref string) bool {
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	return ok && name != "" && name != ".invalid" && len(name) <= 500 && filepath.IsLocal(name) && !strings.Contains(name, "//") &&
		!strings.ContainsAny(name, "\\~^:?*[ \x7f") && !strings.ContainsFunc(name, unicode.IsControl)
}

// imitate creates a .git folder with the parts of a repository that a status needs.
func (s *service) imitate(repo repository, made string) error {
	head, err := s.small(repo, "HEAD", 4<<10)
	if err != nil {
		return err
	}
	head = strings.TrimSpace(head)
	hash := head
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if symbolic {
		if !isBranch(ref) {
			return toolapi.Problemf("The repository %q keeps its references in a way that is not known here.", repo.folder)
		}
		if hash, err = s.reference(repo, ref); err != nil {
			return err
		}
	}
	if hash != "" && !isHash(hash) {
		return toolapi.Problemf("The repository %q has a HEAD that is not a commit.", repo.folder)
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	if len(hash) == 64 {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n"
	}
	contents := map[string]string{"config": config, "HEAD": head + "\n"}
	if symbolic && hash != "" {
		contents[ref] = hash + "\n"
	}
	if exclude, err := s.small(repo, "info/exclude", 1<<20); err == nil {
		contents["info/exclude"] = exclude
	}
	if err := os.MkdirAll(filepath.Join(made, "refs", "heads"), 0o700); err != nil {
		return err
	}
	for name, text := range contents {
		at := filepath.Join(made, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	return s.copyIndex(repo, made)
}

// reference returns the commit of a branch, "" before the first commit.
func (s *service) reference(repo repository, ref string) (string, error) {
	if hash, err := s.small(repo, ref, 4<<10); err == nil {
		return strings.TrimSpace(hash), nil
	}
	packed, err := s.small(repo, "packed-refs", largestRefs)
	if err != nil {
		return "", nil // neither exists: there is no commit yet
	}
	for line := range strings.Lines(packed) {
		if hash, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref {
			return hash, nil
		}
	}
	return "", nil
}

// small reads a small file of a repository, under the rules of the roots.
func (s *service) small(repo repository, name string, most int64) (string, error) {
	f, err := s.tree.OpenReal(filepath.Join(repo.inner, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = toolapi.Problemf("%q is larger than %d bytes.", f.Real, most)
	}
	return string(data), err
}

// copyIndex copies a repository's index, because git would write to its folder.
func (s *service) copyIndex(repo repository, made string) error {
	from, err := s.tree.OpenReal(filepath.Join(repo.inner, "index"))
	if err != nil {
		return nil // nothing is staged yet
	}
	defer from.Close()
	if from.Info.Size() > largestIndex {
		return toolapi.Problemf("The repository %q has too many files: its index has %d bytes, of at most %d.", repo.folder, from.Info.Size(), int64(largestIndex))
	}
	to, err := os.OpenFile(filepath.Join(made, "index"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.LimitReader(from, from.Info.Size()))
	err = errors.Join(err, to.Close())
	if err == nil {
		// Git compares the index's time with the files' times to find those that it must
		// read.
		err = os.Chtimes(to.Name(), from.Info.ModTime(), from.Info.ModTime())
	}
	return err
}

// gitState is the result of git_status.
type gitState struct {
	Repository string      `json:"repository"`
	Branch     string      `json:"branch"`
	Commit     string      `json:"commit"`
	Changes    []gitChange `json:"changes"`
	Cut        bool        `json:"cut,omitempty"`
}

type gitChange struct {
	Path   string `json:"path"`
	Status string `json:"status"`
	From   string `json:"from,omitempty"`
}

// parseStatus parses porcelain format version 2 with NUL as line end.
func parseStatus(folder, text string, cut bool) *gitState {
	st := &gitState{Repository: folder, Changes: []gitChange{}, Cut: cut}
	records := strings.Split(text, "\x00")
	if cut {
		records = records[:len(records)-1] // the last record is incomplete
	}
	for i := 0; i < len(records); i++ {
		kind, rest, _ := strings.Cut(records[i], " ")
		var change gitChange
		switch kind {
		case "#":
			name, value, _ := strings.Cut(rest, " ")
			switch {
			case name == "branch.oid" && value != "(initial)":
				st.Commit = value
			case name == "branch.head" && value != "(detached)":
				st.Branch = value
			}
			continue
		case "?":
			change = gitChange{Path: rest, Status: "??"}
		case "1", "2", "u":
			// The number of fields before the path, which begin with the status.
			fields := map[string]int{"1": 8, "2": 9, "u": 10}[kind]
			parts := strings.SplitN(rest, " ", fields)
			if len(parts) < fields {
				continue
			}
			change = gitChange{Path: parts[fields-1], Status: parts[0]}
			if kind == "2" && i+1 < len(records) {
				i++
				change.From = records[i]
			}
		default:
			continue
		}
		if len(st.Changes) == mostChanges {
			st.Cut = true
			break
		}
		st.Changes = append(st.Changes, change)
	}
	return st
}
