package native

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/sandbox"
)

// confined is a tree under a policy, with its private folder.
type confined struct {
	*sandbox.Process
	temp string
}

// Close implements tree.
func (c *confined) Close() error {
	err := c.Process.Close()
	if c.temp != "" {
		err = errors.Join(err, sandbox.RemoveAll(c.temp))
	}
	return err
}

// confine prepares a verified program to be run under the policy of its plugin. folder
// is the folder of its socket. It returns nil if the policy is off, or if the policy is
// auto and this machine can enforce nothing.
func confine(s *Spec, program *os.File, folder string) (*confined, error) {
	policy := s.Policy
	if policy.Mode == sandbox.Off {
		return nil, nil
	}
	policy.Listen, policy.Write = true, append(slices.Clone(policy.Write), folder)
	if policy.Mode == sandbox.Auto {
		layers, err := sandbox.Available(policy)
		if err != nil {
			return nil, fmt.Errorf("confine the plugin: %w", err)
		}
		if len(layers.InForce) == 0 {
			return nil, nil
		}
	}
	run := sandbox.Program{Path: s.Path, File: program, Args: s.Args, Env: s.Env}
	if policy.Temp {
		// In the folder of the socket, which the next gateway empties if this one is killed.
		policy.Temp = false
		run.Dir = filepath.Join(folder, "tmp")
		if err := os.Mkdir(run.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the private folder of the plugin: %w", err)
		}
		run.Env = slices.DeleteFunc(slices.Clone(s.Env), func(v string) bool {
			return strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "TMPDIR=")
		})
		run.Env = append(run.Env, "HOME="+run.Dir, "TMPDIR="+run.Dir)
	}
	// Only the runner kills it, so no context does.
	process, err := sandbox.Command(context.Background(), policy, run)
	if errors.Is(err, sandbox.ErrMissing) {
		return nil, fmt.Errorf("%w: %w", err, errPermanent)
	}
	if err != nil {
		return nil, fmt.Errorf("confine the plugin: %w", err)
	}
	return &confined{process, run.Dir}, nil
}

// socketIn reports whether a path is a socket in a folder.
func socketIn(path, folder string) bool {
	info, err := os.Lstat(path)
	return filepath.Dir(path) == folder && err == nil && info.Mode().Type() == os.ModeSocket
}

// served checks the address on which a confined plugin says it serves. The gateway
// could otherwise be made to connect to addresses that the plugin cannot reach.
func served(network, address, folder string, policy *sandbox.Policy) error {
	switch {
	case network == "unix":
		if socketIn(address, folder) {
			return nil
		}
		return fmt.Errorf("it says that it serves on %s, which is not a socket in PLUGIN_UNIX_SOCKET_DIR: %w", printable([]byte(address)), errPermanent)
	case policy.Network != sandbox.FullNetwork:
		return fmt.Errorf("it says that it serves on %s, and has no network; it serves on a socket in PLUGIN_UNIX_SOCKET_DIR: %w", printable([]byte(address)), errPermanent)
	}
	// A plugin names an address and no host: what a name leads to would be asked again later.
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("it says that it serves on %s, which is not a loopback address: %w", printable([]byte(address)), errPermanent)
	}
	return nil
}
