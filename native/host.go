package native

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/toolgate/toolgate/internal/sandbox"
)

// Options are what a [Host] is made of. Folder and Logger are required.
type Options struct {
	// Folder is the folder for the sockets of plugins. Nobody else uses it: the host
	// creates it for this user alone, and removes what an earlier host left in it.
	Folder string
	// NoSockets is why sockets cannot be created in Folder. Plugins that are separate
	// programs need them; they fail with this reason. Nil means that they can.
	NoSockets error
	// Version is the version of the gateway, which plugins learn.
	Version string
	Logger  *slog.Logger
	// Changed is called with the key of a plugin whose listing or state has changed.
	// It must not block. Nil calls nobody.
	Changed func(key string)

	health time.Duration // interval of health checks; healthEvery if zero
}

// Host makes plugins. It is safe for concurrent use.
type Host struct {
	opts Options
	self string // the program of the gateway
}

// NewHost returns a host with an empty folder of its own.
func NewHost(o Options) (*Host, error) {
	if o.Logger == nil || o.Folder == "" {
		return nil, errors.New("a host of plugins needs a folder and a logger")
	}
	folder, err := filepath.Abs(o.Folder)
	if err != nil {
		return nil, fmt.Errorf("find the folder of plugin sockets: %w", err)
	}
	o.Folder = folder
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	// A gateway that was killed may have left sockets.
	if err := sandbox.RemoveAll(folder); err != nil {
		return nil, fmt.Errorf("remove the sockets that were left in %s: %w", folder, err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for the sockets of plugins: %w", err)
	}
	if o.health == 0 {
		o.health = healthEvery
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program of the gateway: %w", err)
	}
	return &Host{opts: o, self: self}, nil
}

// Plugin returns a plugin for a spec. Its process runs while [Plugin.Run] does.
func (h *Host) Plugin(s Spec) *Plugin {
	return newPlugin(h, s.withDefaults())
}
