package statedir

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// runningFile is the file of the state folder in which a gateway says where it is.
	runningFile = "running.json"
	// maxRunningFile is the size of such a file in bytes.
	maxRunningFile = 16 << 10
	// maxDirs is how many state folders are looked at.
	maxDirs = 1000
	// answerTime bounds the wait for one gateway. The kernel answers for it at once.
	answerTime = 10 * time.Millisecond
	// answerAttempts is how often a gateway is tried. A timeout says that this process got
	// no time of the machine, and nothing about the gateway.
	answerAttempts = 5
)

// Running is a gateway that runs, in its own words.
type Running struct {
	PID     int       `json:"pid"`            // in the gateway's own PID namespace
	Config  string    `json:"config"`         // absolute path without links; empty for the built-in demo
	With    []string  `json:"with,omitempty"` // absolute paths of the further files
	URL     string    `json:"url,omitempty"`  // of its main listener; empty without one
	Version string    `json:"version"`
	Started time.Time `json:"started"`

	Dir *Dir `json:"-"`
	// Here is its PID in the namespace of this process; 0 if it runs in a container that
	// this process cannot look into.
	Here int `json:"-"`
}

// Announce writes where the gateway of this folder is, so that [FindRunning] finds it. It
// is called once the control socket listens. withdraw takes the note back.
func (s *Dir) Announce(r *Running) (withdraw func(), err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := s.Replace(runningFile, string(text)); err != nil {
		return nil, fmt.Errorf("note where this gateway is: %w", err)
	}
	return func() { _ = os.Remove(filepath.Join(s.Path, runningFile)) }, nil
}

// FindRunning returns the gateways of this user that run, in the order of their start. A
// gateway runs if its control socket accepts connections; what a killed one left behind
// does not count. Each is waited for 10 ms at most. What cannot be read, or belongs to
// another user, is skipped, and so is what names a configuration of another folder.
func FindRunning(ctx context.Context) ([]Running, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	folder, err := os.Open(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for running gateways: %w", err)
	}
	defer folder.Close()
	names, err := folder.Readdirnames(maxDirs)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("look for running gateways: %w", err)
	}
	var (
		mu    sync.Mutex
		found []Running
		all   sync.WaitGroup
		slots = make(chan struct{}, 16)
	)
	for _, name := range names {
		r, ok := readRunning(filepath.Join(root, name))
		if !ok {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if answers(ctx, &r) {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, r)
			}
		})
	}
	all.Wait()
	slices.SortFunc(found, func(a, b Running) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Dir.Path, b.Dir.Path))
	})
	return found, nil
}

// Running returns the gateway of this folder, if it runs. It waits for it as [FindRunning]
// does.
func (s *Dir) Running(ctx context.Context) (Running, bool) {
	r, ok := readRunning(s.Path)
	return r, ok && answers(ctx, &r)
}

// readRunning reads what the gateway of a state folder says. It reads nothing that
// belongs to another user, and follows no link.
func readRunning(dir string) (Running, bool) {
	path := filepath.Join(dir, runningFile)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRunningFile || !ownedBy(info, os.Getuid()) {
		return Running{}, false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Running{}, false
	}
	r := Running{Dir: &Dir{Path: dir, Socket: SocketPath(dir)}}
	if json.Unmarshal(text, &r) != nil || r.PID <= 0 || r.Config != "" && !filepath.IsAbs(r.Config) || slices.ContainsFunc(r.With, notAbs) {
		return Running{}, false
	}
	own, err := Find(r.Config)
	return r, err == nil && own.Path == dir
}

func notAbs(path string) bool { return !filepath.IsAbs(path) }

// answers tells whether the control socket of a gateway accepts connections, and notes which
// process that is. One whose queue is full, so that the gateway is too busy, counts as well.
func answers(ctx context.Context, r *Running) bool {
	r.Here = r.PID
	d := net.Dialer{Timeout: answerTime}
	for range answerAttempts {
		conn, err := d.DialContext(ctx, "unix", r.Dir.Socket)
		if err == nil {
			if pid, known := peer(conn); known {
				r.Here = pid
			}
			conn.Close()
			return true
		}
		if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
			return errors.Is(err, syscall.EAGAIN)
		}
	}
	return false
}
