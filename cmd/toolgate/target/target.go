// Package target decides which gateway a command talks to.
package target

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/cmd/toolgate/doctor"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
)

// Find returns the path of the configuration whose gateway a command talks to; empty for
// the demo. found is the file that the search for configurations returned. If somebody
// named it, it is the answer. Otherwise a gateway that runs comes first: the one of that
// file, else the only one. running is the gateway of path; nil if none runs. If several
// run and none is of that file, the error lists them.
func Find(ctx context.Context, found string, named bool) (path string, running *statedir.Running, err error) {
	if named {
		dir, err := statedir.Find(found)
		if err != nil {
			return "", nil, failure.New(failure.Config, err)
		}
		if own, ok := dir.Running(ctx); ok {
			running = &own
		}
		return found, running, nil
	}
	all, err := statedir.FindRunning(ctx)
	if err != nil || len(all) == 0 {
		return found, nil, failure.New(failure.Config, err)
	}
	own, err := ownOf(all, found)
	if err != nil {
		return "", nil, failure.New(failure.Config, err)
	}
	if own != nil {
		return found, own, nil
	}
	if len(all) == 1 {
		return all[0].Config, &all[0], nil
	}
	return "", nil, failure.Newf(failure.Usage, "%s", several(all))
}

// Runs tells whether a gateway of a configuration runs.
func Runs(ctx context.Context, path string) bool {
	all, err := statedir.FindRunning(ctx)
	if err != nil {
		return false
	}
	own, err := ownOf(all, path)
	return err == nil && own != nil
}

// Serves tells whether a process is a running gateway.
func Serves(ctx context.Context, pid int) bool {
	all, err := statedir.FindRunning(ctx)
	return err == nil && slices.ContainsFunc(all, func(r statedir.Running) bool { return r.PID == pid })
}

// ownOf returns the gateway of a configuration; nil if none of these is.
func ownOf(all []statedir.Running, path string) (*statedir.Running, error) {
	dir, err := statedir.Find(path)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Dir.Path == dir.Path {
			return &all[i], nil
		}
	}
	return nil, nil
}

// several lists gateways to choose from.
func several(all []statedir.Running) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d gateways are running; choose one with -c", len(all))
	for i := range all {
		r := &all[i]
		where := fmt.Sprintf("%s %s", Process(r), r.URL)
		if r.Config == "" {
			fmt.Fprintf(&b, "\n  the demo, %s: run the command in a folder without %s", where, config.FileName)
			continue
		}
		if len(r.With) > 0 {
			where += ", with " + Files(&statedir.Running{Config: r.With[0], With: r.With[1:]})
		}
		fmt.Fprintf(&b, "\n  -c %s   %s", Shown(r.Config), where)
	}
	return b.String()
}

// Shown is the path of a configuration for a person.
func Shown(path string) string {
	if path == "" {
		return "the demo"
	}
	home, err := os.UserHomeDir()
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); err == nil && ok {
		return filepath.Join("~", rest)
	}
	return path
}

// Files are the files of a gateway for a person.
func Files(r *statedir.Running) string {
	all := []string{Shown(r.Config)}
	for _, path := range r.With {
		all = append(all, Shown(path))
	}
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// Process says which process a gateway is.
func Process(r *statedir.Running) string {
	if r.Here == 0 {
		return "a process of another container"
	}
	return fmt.Sprintf("pid %d", r.Here)
}

// Already says that the gateway which is to be started runs.
func Already(r *statedir.Running) error {
	text := "this gateway is running already: " + Process(r)
	if r.URL != "" {
		text += ", " + r.URL
	}
	return failure.Newf(failure.Unreachable, "%s; see `toolgate status`, or stop that process first", text)
}

// Client returns a client for the gateway of a configuration, which may not run.
func Client(path string) (*admin.Client, error) {
	state, err := statedir.Open(path)
	if err != nil {
		return nil, err
	}
	token, err := state.Secret("admin.token")
	if err != nil {
		return nil, err
	}
	return &admin.Client{Path: state.Socket, Token: token}, nil
}

// NotRunning says that no gateway of a configuration runs, and how to start one.
func NotRunning(path string) error {
	if path == "" {
		return failure.Newf(failure.Unreachable, "no gateway is running; start one with `toolgate up`")
	}
	return failure.Newf(failure.Unreachable, "%w, %s; start one with `toolgate up %s`", admin.ErrNotRunning, path, path)
}

// InUse says who listens on the address that the gateway of a configuration needs, and
// what to do.
func InUse(ctx context.Context, path, address string) error {
	pid, program := doctor.Holder(address)
	all, _ := statedir.FindRunning(ctx) // without them the message says less
	own, err := statedir.Find(path)
	for i := range all {
		r := &all[i]
		switch {
		case r.URL == "" || r.Here != pid && !strings.HasSuffix(r.URL, "://"+address):
		case err == nil && r.Dir.Path == own.Path:
			return Already(r)
		default:
			return failure.Newf(failure.Unreachable, "%s is in use by the gateway of %s, %s; stop it, or choose another address: --listen 127.0.0.1:0", address, Files(r), Process(r))
		}
	}
	holder := "another program"
	if pid != 0 {
		holder = fmt.Sprintf("%s, pid %d", program, pid)
	}
	return failure.Newf(failure.Unreachable, "%s is in use by %s; stop it, or choose another address: --listen 127.0.0.1:0", address, holder)
}
